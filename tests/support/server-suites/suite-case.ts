/**
 * Cases of suites that others wrote for their own servers, as far as they need only an address: written anew by what each looks at, with a
 * tiny random model in place of theirs, so that they look at structure and not at words.
 */
/** What of a case is not its request. */
export type Outcome = Pick<SuiteCase, 'expected' | 'server' | 'through'>

export type Body = Readonly<Record<string, unknown>>

/** In a format of others, of which a case looks at some places. */
export type Answer = ReturnType<typeof JSON.parse>

export interface Answered {
  readonly status: number
  /** Of a whole answer. */
  readonly body: Answer
  /** Of a stream, without its `[DONE]`. */
  readonly events: readonly Answer[]
}

/** Posts the body with the server's model, where it names none; `model: undefined` sends none. null: a GET. `zstd`: compressed. */
export type Ask = (path: string, body: Body | null, coding?: 'zstd') => Promise<Answered>

export interface SuiteCase {
  readonly name: string
  readonly purpose: 'chat' | 'embed' | 'rank'
  /** What the suite's case looks at. */
  run(ask: Ask): Promise<unknown>
  /** What the suite wants of it. */
  readonly expected: unknown
  /** What the server of our version says, where the suite is of a later one. */
  readonly server?: unknown
  /** The server of our version says now this, now that; the gateway always says what the suite wants. */
  readonly steadied?: true
  /** Where the gateway answers otherwise: what, and how its row of docs/compatibility.md begins. */
  readonly through?: { readonly facts: unknown; readonly row: string }
}

/** A case of one request. */
export const single = (
  purpose: SuiteCase['purpose'],
  name: string,
  [path, body]: readonly [string, Body],
  look: (answered: Answered) => unknown,
  rest: Outcome,
): SuiteCase => ({ purpose, name, run: async (ask) => look(await ask(path, body)), ...rest })

/** Of a refused request: its status, and that it says why. */
export const refusal = ({ status, body }: Answered): unknown => [status, typeof body?.error?.message === 'string']

export async function askServer(
  base: string,
  path: string,
  key: string,
  body: Body | null,
  coding?: 'zstd',
): Promise<Answered> {
  const sent = JSON.stringify(body)
  const response = await fetch(base + path, {
    method: body === null ? 'GET' : 'POST',
    // llama.cpp closes connections on which it has streamed.
    keepalive: false,
    headers: {
      connection: 'close',
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      ...(coding === undefined ? {} : { 'content-encoding': coding }),
    },
    ...(body === null ? {} : { body: coding === undefined ? sent : new Uint8Array(Bun.zstdCompressSync(sent)) }),
  })
  const text = await response.text()
  const { status } = response
  if (response.headers.get('content-type')?.startsWith('text/event-stream') !== true) {
    return { status, body: JSON.parse(text), events: [] }
  }
  const events = [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => data).filter((data) => data !== '[DONE]')
  return { status, body: null, events: events.map((data) => JSON.parse(data)) }
}
