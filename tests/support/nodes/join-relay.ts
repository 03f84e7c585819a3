import type { Server } from 'bun'

export interface JoinRelay {
  readonly url: string
  stop(): Promise<void>
}

/** What the one in the middle does with a request; null: it passes it on, and the answer back. */
export type Meddling = (request: Request, body: string, pass: () => Promise<Response>) => Promise<Response | null>

/** Stands between an agent and its gateway on the network, as anybody can whom the agent takes for its gateway. */
export function startJoinRelay(gatewayUrl: string, meddle: Meddling = async () => null): JoinRelay {
  const server: Server<undefined> = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url)
      const body = await request.text()
      const init = {
        method: request.method,
        headers: { 'content-type': 'application/json' },
        ...(body === '' ? {} : { body }),
      }
      const pass = () => fetch(gatewayUrl + pathname + search, init)
      return (await meddle(request, body, pass)) ?? (await pass())
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) }
}
