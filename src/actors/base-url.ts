import { callableHost } from '../host/own-addresses.ts'
import type { Config } from '../settings/config.ts'
import { minuteMs } from '../time.ts'

/** Asking the computer for its addresses takes 0.2 ms (measured), and every refusal has a link. */
const keptMs = minuteMs
const hostOf = (host: string) => (host.includes(':') ? `[${host}]` : host)

/** The address of this gateway without a trailing slash, with the port on which it really listens. */
export function createBaseUrl(
  { SVC_PUBLIC_URL, SVC_HOST }: Pick<Config, 'SVC_PUBLIC_URL' | 'SVC_HOST'>,
  listener: { readonly port: number },
): () => string {
  const named = SVC_PUBLIC_URL?.replace(/\/+$/, '')
  if (named !== undefined) return () => named
  let host = ''
  let untilMs = Number.NEGATIVE_INFINITY
  return () => {
    if (performance.now() >= untilMs) {
      host = hostOf(callableHost(SVC_HOST))
      untilMs = performance.now() + keptMs
    }
    return `http://${host}:${listener.port}`
  }
}
