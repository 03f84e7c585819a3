import { foreignJson } from '../../../protocol/json/foreign-json.ts'
import { PullFault } from './pull-fault.ts'

/** Between connections that hand over to one another. */
const redirectsMax = 5
/** How long a hub may take for the head of an answer, and then between two pieces of it, ms. */
const silenceMsDefault = 30_000
/** Far more than any list of files that is of use. */
const jsonBytesMax = 4 * 1024 * 1024

export interface HubAccess {
  /** The hub's own origin, as its owner allows it. */
  readonly origin: string
  readonly handsOverTo: readonly string[]
  /** Sent to the hub itself, and to nobody it hands over to; made for each request. */
  readonly credentials: (url: URL) => Readonly<Record<string, string>>
  readonly signal: AbortSignal
  readonly silenceMs?: number
}

export interface HubAnswer {
  readonly status: number
  readonly headers: Headers
  /** Its body, piece by piece. Rejects with `PullFault` where none comes for too long. */
  chunks(): AsyncGenerator<Uint8Array>
  /** The rest is not wanted. */
  leave(): void
}

/** A GET at the hub or where it hands over to. Rejects with `PullFault` where it leads elsewhere, or does not answer. */
export type HubFetch = (url: string, headers?: Readonly<Record<string, string>>) => Promise<HubAnswer>

const isBelow = (host: string, domain: string) => host === domain || host.endsWith(`.${domain}`)

/** Elsewhere a hub could have the agent ask anything in its owner's network. */
function mayGo({ origin, protocol, hostname, port }: URL, access: HubAccess): boolean {
  if (origin === access.origin) return true
  return protocol === 'https:' && port === '' && access.handsOverTo.some((domain) => isBelow(hostname, domain))
}

export function hubFetch(access: HubAccess): HubFetch {
  const { signal, credentials, silenceMs = silenceMsDefault } = access
  return async (from, headers = {}) => {
    let url = new URL(from)
    for (let hops = 0; hops <= redirectsMax; hops++) {
      if (!mayGo(url, access)) throw new PullFault('not_allowed')
      const own = url.origin === access.origin ? credentials(url) : {}
      const response = await answered(url, { ...headers, ...own }, signal, silenceMs)
      const location = response.headers.get('location')
      if (response.status < 300 || response.status > 399 || location === null) return answerOf(response, silenceMs)
      leave(response)
      if (!URL.canParse(location, url)) throw new PullFault('hub_malformed')
      url = new URL(location, url)
    }
    throw new PullFault('hub_malformed')
  }
}

/** The end of a connection is not waited for: one that says nothing may not say that either. */
const leave = ({ body }: Response) => void body?.cancel().catch(() => {})

const answerOf = (response: Response, silenceMs: number): HubAnswer => ({
  status: response.status,
  headers: response.headers,
  chunks: () => audible(response, silenceMs),
  leave: () => leave(response),
})

async function* audible(response: Response, silenceMs: number): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader()
  if (reader === undefined) return
  let timer: ReturnType<typeof setTimeout> | undefined
  try {
    for (;;) {
      const silent = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error('silent')), silenceMs)
      })
      const { done, value } = await Promise.race([reader.read(), silent])
      clearTimeout(timer)
      if (done) return
      yield value
    }
  } catch (error) {
    throw new PullFault('hub_unavailable', { cause: error })
  } finally {
    clearTimeout(timer)
    reader.cancel().catch(() => {})
  }
}

/** The time is that of the head alone: the body comes at its own pace. */
async function answered(
  url: URL,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
  withinMs: number,
): Promise<Response> {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), withinMs)
  try {
    // On a kept connection that turns out to be closed, Bun sends a GET once more, and a signed one counts once.
    const init = { headers, redirect: 'manual', keepalive: false } as const
    return await fetch(url, { ...init, signal: AbortSignal.any([signal, late.signal]) })
  } catch (error) {
    throw new PullFault('hub_unavailable', { cause: error })
  } finally {
    clearTimeout(timer)
  }
}

const missing: ReadonlySet<number> = new Set([401, 403, 404, 410])

/** Throws what the status means, where it is no success. */
export function succeeded(answer: HubAnswer): HubAnswer {
  if (answer.status >= 200 && answer.status <= 299) return answer
  answer.leave()
  throw new PullFault(missing.has(answer.status) ? 'not_found' : 'hub_unavailable')
}

/** The beginning of a body. Rejects with `PullFault` where it breaks before. */
export async function firstBytes(answer: HubAnswer, bytesMax: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of answer.chunks()) {
    chunks.push(chunk)
    size += chunk.length
    if (size >= bytesMax) break
  }
  return Buffer.concat(chunks).subarray(0, bytesMax)
}

const nextForm = /<([^<>]{1,4096})>\s*;[^,]*\brel="?next"?/i

/** Where a list goes on that comes in pages (`Link` of RFC 8288); null: this is its end. Throws `PullFault` for an address that cannot be read. */
export function nextPage({ headers }: HubAnswer, from: string): string | null {
  const next = nextForm.exec(headers.get('link') ?? '')?.[1]
  if (next === undefined) return null
  if (!URL.canParse(next, from)) throw new PullFault('hub_malformed')
  return new URL(next, from).href
}

/** The JSON of an answer. Rejects with `PullFault` where the answer is no JSON. */
export async function hubJson(answer: HubAnswer): Promise<unknown> {
  const bytes = await firstBytes(succeeded(answer), jsonBytesMax + 1)
  const value = bytes.length > jsonBytesMax ? undefined : foreignJson(Buffer.from(bytes).toString('utf8'))
  if (value === undefined) throw new PullFault('hub_malformed')
  return value
}
