"""Between the two sides: find, admit, wait, send, bound; knows no sockets."""
