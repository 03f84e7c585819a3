/** A server before a gateway, which passes everything on but what a test has it say otherwise. */
export interface LyingProxy {
  readonly url: string
  /** Paths asked for, in their order. */
  readonly asked: string[]
  /** By the beginning of a path: what is said in place of the gateway's answer. */
  readonly lies: Map<string, (text: string, path: string) => string | Uint8Array | null>
  stop(): Promise<void>
}

/** A lie that is null is a 404. Others get the gateway's answer as latin-1 text, so that bytes can be changed, too. */
export function lyingProxy(target: string): LyingProxy {
  const asked: string[] = []
  const lies: LyingProxy['lies'] = new Map()
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url)
      const path = `${pathname}${search}`
      asked.push(path)
      const answer = await fetch(`${target}${path}`)
      const bytes = await answer.bytes()
      const lie = [...lies].find(([start]) => path.startsWith(start))?.[1]
      if (lie === undefined) return new Response(new Uint8Array(bytes), { status: answer.status })
      const said = lie(Buffer.from(bytes).toString('latin1'), path)
      if (said === null) return new Response('{}', { status: 404 })
      return new Response(typeof said === 'string' ? new Uint8Array(Buffer.from(said, 'latin1')) : new Uint8Array(said))
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, asked, lies, stop: () => server.stop(true) }
}
