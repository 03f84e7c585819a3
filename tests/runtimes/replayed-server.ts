import type { ProbeFetch } from '../../src/runtimes/runtime.ts'

interface RecordedAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly text?: string
}

export interface Replayed {
  readonly port: number
  readonly get: ProbeFetch
  /** Every path that was asked for, in order. */
  readonly asked: readonly string[]
}

/** Runs `body` against a server that answers as the fixture `name` says. */
export async function replay<T>(name: string, body: (server: Replayed) => Promise<T>): Promise<T> {
  const fixture: { answers: Record<string, RecordedAnswer> } = await Bun.file(
    `${import.meta.dir}/fixtures/${name}.json`,
  ).json()
  const asked: string[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request) {
      const { pathname } = new URL(request.url)
      asked.push(pathname)
      const answer = fixture.answers[pathname] ?? fixture.answers['*']
      if (request.method !== 'GET' || answer === undefined)
        return Response.json({ error: 'not found' }, { status: 404 })
      const text = answer.text ?? JSON.stringify(answer.body)
      return new Response(text, {
        status: answer.status,
        headers: { 'content-type': 'application/json', ...answer.headers },
      })
    },
  })
  const port = server.port ?? 0
  try {
    return await body({ port, asked, get: (path) => fetch(`http://127.0.0.1:${port}${path}`) })
  } finally {
    await server.stop(true)
  }
}
