// Hosts made with the TypeScript SDK: `node sdk_host.mjs SOCKET`. Each connection is one host; see sdk_host.py.
// `@modelcontextprotocol/client` is its second generation, `@modelcontextprotocol/sdk` the first, which
// most hosts still have; only the first knows no modern revision.

import { createServer } from "node:net";
import { createInterface } from "node:readline";
import * as second from "@modelcontextprotocol/client";
import { StdioClientTransport as SecondTransport } from "@modelcontextprotocol/client/stdio";
import { Client as FirstClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as FirstTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import * as schemas from "@modelcontextprotocol/sdk/types.js";

const MODERN = "2026-07-28";
const SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId";
const QUESTIONS = {
    "elicitation/create": { ability: "elicitation", schema: schemas.ElicitRequestSchema, can: { form: {}, url: {} } },
    "sampling/createMessage": { ability: "sampling", schema: schemas.CreateMessageRequestSchema, can: {} },
    "roots/list": { ability: "roots", schema: schemas.ListRootsRequestSchema, can: { listChanged: true } },
};
const TOLD = [
    "tools/list_changed", "prompts/list_changed", "resources/list_changed", "resources/updated", "message",
    "elicitation/complete",
].map((name) => `notifications/${name}`);
const DO = {
    "ping": (client, params, options) => client.ping(options),
    "tools/list": (client, params, options) => client.listTools(params, options),
    "prompts/list": (client, params, options) => client.listPrompts(params, options),
    "resources/list": (client, params, options) => client.listResources(params, options),
    "resources/templates/list": (client, params, options) => client.listResourceTemplates(params, options),
    "tools/call": (client, params, options) =>
        client instanceof FirstClient ? client.callTool(params, undefined, options) : client.callTool(params, options),
    "prompts/get": (client, params, options) => client.getPrompt(params, options),
    "resources/read": (client, params, options) => client.readResource(params, options),
    "completion/complete": (client, params, options) => client.complete(params, options),
    "logging/setLevel": (client, params, options) => client.setLoggingLevel(params.level, options),
    "resources/subscribe": (client, params, options) => client.subscribeResource(params, options),
    "resources/unsubscribe": (client, params, options) => client.unsubscribeResource(params, options),
};

class Host {
    running = new Map();
    open = new Map();
    questions = 0;

    constructor(socket) {
        this.socket = socket;
    }

    write(message) {
        if (this.socket.writable) this.socket.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    }

    async read(message) {
        if (message.method === undefined) {
            this.open.get(message.id)(message);
        } else if (message.method === "notifications/cancelled") {
            this.running.get(message.params.requestId).abort("enough");
        } else if (message.method === "notifications/roots/list_changed") {
            await this.client.sendRootsListChanged();
        } else {
            await this.serve(message);
        }
    }

    async serve({ id, method, params }) {
        const aborter = new AbortController();
        this.running.set(id, aborter);
        try {
            const work = method === "connect" ? this.connect(params) : this.request(id, method, params, aborter.signal);
            this.write({ id, result: await work });
        } catch (error) {
            const code = typeof error.code === "number" ? error.code : 0;
            this.write({ id, error: { code, message: String(error.message ?? error), data: error.data } });
        }
        this.running.delete(id);
    }

    async connect({ command: [command, ...args], env, cwd, revision, generation, can }) {
        const about = [{ name: "a-host", version: "1" }];
        const capabilities = Object.fromEntries(
            Object.values(QUESTIONS).filter(({ ability }) => can.includes(ability)).map(({ ability, can }) => [ability, can]),
        );
        const first = generation === 1;
        if (first) {
            this.client = new FirstClient(...about, { capabilities });
        } else if (revision === MODERN) {
            this.client = new second.Client(...about, { capabilities, versionNegotiation: { mode: { pin: MODERN } } });
        } else if (revision === "auto") {
            this.client = new second.Client(...about, { capabilities, versionNegotiation: { mode: "auto" } });
        } else {
            const supportedProtocolVersions = [revision, ...schemas.SUPPORTED_PROTOCOL_VERSIONS];
            this.client = new second.Client(...about, { capabilities, supportedProtocolVersions });
        }
        for (const [method, { ability, schema }] of Object.entries(QUESTIONS)) {
            if (!can.includes(ability)) continue;
            this.client.setRequestHandler(first ? schema : method, (request, context) =>
                this.asked(method, request.params ?? {}, context.signal ?? context.mcpReq?.signal));
        }
        // What a host has handlers for it declares in no way; a message that it does not know of is no error.
        for (const method of TOLD) {
            const tell = (note) => this.write({ method, params: note.params ?? {} });
            const known = Object.values(schemas).find((schema) => schema?.shape?.method?.value === method);
            this.client.setNotificationHandler(first ? known : method, tell);
        }
        const Transport = first ? FirstTransport : SecondTransport;
        const transport = new Transport({ command, args, env, cwd });
        let agreed;
        if (first) transport.setProtocolVersion = (version) => (agreed = version);
        await this.client.connect(transport);
        this.client.onerror = (error) => this.write({ method: "fault", params: { message: String(error) } });
        return {
            protocolVersion: agreed ?? this.client.getNegotiatedProtocolVersion(),
            capabilities: this.client.getServerCapabilities(),
            serverInfo: this.client.getServerVersion() ?? null,
            instructions: this.client.getInstructions() ?? null,
        };
    }

    request(id, method, params, signal) {
        if (method === "subscriptions/listen") return this.listen(id, params, signal);
        const { progressToken, ...meta } = params._meta ?? {};
        const told = { ...params };
        delete told._meta;
        if (Object.keys(meta).length) told._meta = meta;
        const options = { signal };
        if (progressToken !== undefined) {
            options.onprogress = (progress) =>
                this.write({ method: "notifications/progress", params: { ...progress, progressToken } });
        }
        return DO[method](this.client, Object.keys(told).length ? told : undefined, options);
    }

    async listen(id, { notifications }, signal) {
        const subscription = await this.client.listen(notifications);
        const params = { notifications: subscription.honoredFilter, _meta: { [SUBSCRIPTION]: id } };
        this.write({ method: "notifications/subscriptions/acknowledged", params });
        signal.addEventListener("abort", () => subscription.close());
        return { ended: await subscription.closed };
    }

    asked(method, params, signal) {
        const id = `question-${++this.questions}`;
        this.write({ id, method, params });
        signal?.addEventListener("abort", () => this.write({ method: "notifications/cancelled", params: { requestId: id } }));
        return new Promise((resolve, reject) => {
            this.open.set(id, ({ result, error }) =>
                error ? reject(Object.assign(new Error(error.message), { code: error.code })) : resolve(result));
        });
    }
}

createServer((socket) => {
    const host = new Host(socket);
    const lines = createInterface({ input: socket });
    lines.on("line", (line) => host.read(JSON.parse(line))).on("error", () => {});
    const close = () => host.client?.close();
    socket.on("close", close).on("error", close);
}).listen(process.argv[2]);
