import { isIP } from 'node:net'

export interface ListenAddress {
  /** An IPv6 address without its brackets. */
  readonly hostname: string
  readonly port: number
}

/** The settings that say where a gateway listens. */
interface Doors {
  readonly SVC_HOST: string
  readonly SVC_OLLAMA_LISTEN: string | null
}

const portMax = 65_535
const form = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})$/

/** `127.0.0.1:11434`, `[::1]:11434`; null: no address. */
export function listenAddress(text: string): ListenAddress | null {
  const [, v6, name, digits] = form.exec(text) ?? []
  const hostname = v6 ?? name
  const port = Number(digits)
  if (hostname === undefined || port > portMax || (v6 !== undefined && isIP(v6) !== 6)) return null
  return { hostname, port }
}

/** Where a gateway listens that has taken this port. */
export function doorsOf(
  { SVC_HOST: hostname, SVC_OLLAMA_LISTEN: text }: Doors,
  port: number,
): readonly ListenAddress[] {
  const ollama = text === null ? null : listenAddress(text)
  return [{ hostname, port }, ...(ollama === null ? [] : [ollama])]
}
