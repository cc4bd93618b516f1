// An authorization server made with `oidc-provider`, with the pages for people that it brings along.
//
//   node issuer.mjs '{"secret": "of the resource server", "seconds": 10}'
//
// Clients register themselves, tokens are for one resource. Its first line on stdout is its address, each
// line after that one thing that it has done, as JSON.

import { createServer } from "node:http";

import { Provider } from "oidc-provider";

const { secret, seconds } = JSON.parse(process.argv[2]);

const http = createServer();
await new Promise((listening) => http.listen(0, "127.0.0.1", listening));
const issuer = `http://127.0.0.1:${http.address().port}`;

function getResourceServerInfo(_, audience) {
  return { audience, scope: "echo", accessTokenTTL: seconds, accessTokenFormat: "opaque" };
}

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "resource-server",
      client_secret: secret,
      redirect_uris: [],
      response_types: [],
      grant_types: [],
    },
  ],
  scopes: ["openid", "offline_access", "echo"],
  features: {
    registration: { enabled: true },
    revocation: { enabled: true },
    introspection: {
      enabled: true,
      allowedPolicy: (_, client) => client.clientId === "resource-server",
    },
    resourceIndicators: { enabled: true, getResourceServerInfo, useGrantedResource: () => true },
  },
});

const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
say({ issuer });

provider.on("registration_create.success", (_, client) => {
  say({ did: "register", client: client.clientId, name: client.clientName });
});
provider.on("grant.success", ({ oidc }) => {
  say({ did: "grant", client: oidc.client.clientId, type: oidc.params.grant_type, resource: oidc.params.resource });
});
for (const failed of ["authorization.error", "grant.error", "registration_create.error", "revocation.error", "server_error"]) {
  provider.on(failed, (_, error) => say({ did: failed, error: error.error_description ?? error.message }));
}
for (const gone of ["access_token.destroyed", "refresh_token.destroyed", "grant.revoked"]) {
  provider.on(gone, () => say({ did: gone }));
}

http.on("request", provider.callback());
