/** Computers with a list of models each, all played by one listener: every one has an address of its own on loopback. */
export interface ListedFleet {
  /** The address of the n-th, counted from 0. */
  url(at: number): string
  /** How many requests each was asked since the last call; whoever was not asked is not in it. */
  takeCounts(): ReadonlyMap<string, number>
  stop(): void
}

/** 127.1.0.1 and on: 250 in each /24. */
const hostAt = (at: number) => `127.1.${Math.floor(at / 250)}.${(at % 250) + 1}`

/** `modelsOf`: what the n-th lists. Nothing else is answered, so that each is a server that says no more than its list. */
export function startListedFleet(modelsOf: (at: number) => readonly string[]): ListedFleet {
  let counts = new Map<string, number>()
  const indexOf = (host: string) => {
    const [, , block = '0', last = '1'] = host.split('.')
    return Number(block) * 250 + Number(last) - 1
  }
  const server = Bun.serve({
    port: 0,
    hostname: '0.0.0.0',
    fetch: (request) => {
      const { hostname, pathname } = new URL(request.url)
      counts.set(hostname, (counts.get(hostname) ?? 0) + 1)
      if (pathname !== '/v1/models') return new Response('no such path', { status: 404 })
      return Response.json({
        object: 'list',
        data: modelsOf(indexOf(hostname)).map((id) => ({ id, object: 'model', context_length: 8_192 })),
      })
    },
  })
  return {
    url: (at) => `http://${hostAt(at)}:${server.port}`,
    takeCounts: () => {
      const taken = counts
      counts = new Map()
      return taken
    },
    stop: () => void server.stop(true),
  }
}
