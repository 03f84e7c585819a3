// The plainest streaming pass-through on Bun: Bun.serve + fetch. PORT, UPSTREAM from the environment.
const up = process.env.UPSTREAM ?? "http://127.0.0.1:19001";
const base = up.replace(/\/$/, "");
Bun.serve({
  port: Number(process.env.PORT ?? 8080),
  hostname: "127.0.0.1",
  reusePort: process.env.REUSE === "1",
  idleTimeout: 0,
  async fetch(req) {
    const path = req.url.slice(req.url.indexOf("/", 8));
    const r = await fetch(base + path, {
      method: req.method,
      headers: { "content-type": "application/json", authorization: req.headers.get("authorization") ?? "" },
      body: req.method === "GET" ? null : await req.arrayBuffer(),
      signal: req.signal,
      decompress: false,
    });
    return new Response(r.body, { status: r.status, headers: { "content-type": r.headers.get("content-type") ?? "" } });
  },
});
