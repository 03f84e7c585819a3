import { Problem } from '../../../errors.ts'
import { isLoopback } from '../../../host/loopback.ts'
import type { HttpContext } from '../../frame/context.ts'

/** The gateway would ask itself, again and again. */
export function refuseItself({ gateway }: HttpContext, given: string): void {
  if (!URL.canParse(given)) return
  const [url, own] = [new URL(given), new URL(gateway.baseUrl())]
  const here = isLoopback(url.hostname) && isLoopback(own.hostname) && url.port === own.port
  if (url.origin !== own.origin && !here) return
  throw new Problem('invalid_request', { param: 'url', detail: 'This is the address of the gateway itself' })
}
