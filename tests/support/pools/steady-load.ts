import type { TestGateway } from '../gateways/gateway.ts'

/** How one request of the load ended. */
export interface LoadResult {
  /** ms since the load began. */
  readonly atMs: number
  readonly stream: boolean
  /** 0: the connection itself failed. */
  readonly status: number
  /** Content reached the client. */
  readonly gotByte: boolean
  readonly complete: boolean
  /** `error.code` of the body or of the event inside the stream. */
  readonly code: string | null
}

export interface SteadyLoad {
  readonly results: readonly LoadResult[]
  /** ms since the first request. */
  elapsedMs(): number
  /** No more requests; resolves when the last has ended. */
  stop(): Promise<readonly LoadResult[]>
}

const tickMs = 20

async function readStream(response: Response): Promise<Pick<LoadResult, 'gotByte' | 'complete' | 'code'>> {
  let text = ''
  try {
    const decoder = new TextDecoder()
    for await (const bytes of response.body ?? []) text += decoder.decode(bytes, { stream: true })
  } catch {
    // Cut: what came until then says how far it was.
  }
  const code = /"error":\{.*?"code":"(\w+)"/.exec(text)?.[1] ?? null
  return { gotByte: /"delta":\{[^}]*"content":"[^"]/.test(text), complete: text.endsWith('data: [DONE]\n\n'), code }
}

async function readWhole(response: Response): Promise<Pick<LoadResult, 'gotByte' | 'complete' | 'code'>> {
  const body = (await response.json()) as { error?: { code?: string }; choices?: unknown }
  const complete = response.status === 200 && body.choices !== undefined
  return { gotByte: complete, complete, code: body.error?.code ?? null }
}

async function ask(gateway: TestGateway, key: string, model: string, at: number): Promise<Omit<LoadResult, 'atMs'>> {
  const stream = at % 2 === 0
  const body = { model, stream, messages: [{ role: 'user', content: `request ${at}` }] }
  try {
    const response = await gateway.chat(key, body)
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
    return { stream, status: response.status, ...(await (isStream ? readStream(response) : readWhole(response))) }
  } catch {
    return { stream, status: 0, gotByte: false, complete: false, code: null }
  }
}

/** So many requests a second, however long each takes: every other one is a stream. */
export function steadyLoad(gateway: TestGateway, key: string, model: string, perSecond: number): SteadyLoad {
  const results: LoadResult[] = []
  const open = new Set<Promise<void>>()
  const beganMs = performance.now()
  let sent = 0
  const timer = setInterval(() => {
    const due = ((performance.now() - beganMs) * perSecond) / 1_000
    for (; sent < due; sent++) {
      const atMs = performance.now() - beganMs
      const one = ask(gateway, key, model, sent).then((result) => {
        results.push({ atMs, ...result })
        open.delete(one)
      })
      open.add(one)
    }
  }, tickMs)
  return {
    results,
    elapsedMs: () => performance.now() - beganMs,
    stop: async () => {
      clearInterval(timer)
      while (open.size > 0) await Promise.all(open)
      return results
    },
  }
}

/** Failed although nothing had been sent: what failover exists to prevent. */
export const failedUnsent = ({ gotByte, complete }: LoadResult) => !gotByte && !complete
/** Ended without `[DONE]` and without an error event: never allowed (§6). */
export const endedSilently = ({ gotByte, complete, code }: LoadResult) => gotByte && !complete && code === null
