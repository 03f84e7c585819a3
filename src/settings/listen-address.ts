import { isIP } from 'node:net'

export interface ListenAddress {
  /** An IPv6 address without its brackets. */
  readonly hostname: string
  readonly port: number
}

const portMax = 65_535
const form = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})$/

/** `127.0.0.1:11434`, `[::1]:11434`; null: it is none. */
export function listenAddress(text: string): ListenAddress | null {
  const [, v6, name, digits] = form.exec(text) ?? []
  const hostname = v6 ?? name
  const port = Number(digits)
  if (hostname === undefined || port > portMax || (v6 !== undefined && isIP(v6) !== 6)) return null
  return { hostname, port }
}
