import { UsageFault } from './failure.ts'

/** `host:port`, `[::1]:7072`, `:7072` or `7072`. */
export function listenAddress(text: string): { readonly hostname: string; readonly port: number } {
  const found = /^(?:(\[[0-9a-fA-F:]+\]|[^:[\]]*):)?([0-9]{1,5})$/.exec(text)
  const port = Number(found?.[2] ?? Number.NaN)
  if (!(port <= 65_535)) throw new UsageFault('--listen must be host:port')
  const hostname = (found?.[1] ?? '').replaceAll(/[[\]]/g, '')
  return { hostname: hostname === '' ? '127.0.0.1' : hostname, port }
}
