import { product } from '../../brand.ts'
import type { NodeRequest } from '../transport.ts'

const lineBreak = /[\r\n\0]/

/** Header values are ours or checked elsewhere; a line break in one would be another request. */
function headerLines(headers: Readonly<Record<string, string>>, reserved?: ReadonlySet<string>): string {
  let lines = ''
  for (const name in headers) {
    if (reserved?.has(name.toLowerCase()) === true) continue
    const value = headers[name] ?? ''
    if (lineBreak.test(name) || lineBreak.test(value)) throw new TypeError('header with a line break')
    lines += `${name}: ${value}\r\n`
  }
  return lines
}

/** Request lines and headers for one node: what is the same for every request is written once. */
export class RequestHeads {
  private readonly prefix: string
  private readonly fixed: string
  private readonly reserved: ReadonlySet<string>

  constructor(url: URL, apiKey: string | null) {
    const own: Readonly<Record<string, string>> = {
      host: url.host,
      'accept-encoding': 'identity',
      'user-agent': product,
      ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
    }
    this.prefix = url.pathname === '/' ? '' : url.pathname
    this.fixed = headerLines(own)
    this.reserved = new Set(Object.keys(own))
  }

  /** Without the length of the body. */
  of(path: string, { method, headers }: NodeRequest): string {
    const given = headers === undefined ? '' : headerLines(headers, this.reserved)
    return `${method} ${this.prefix}${path} HTTP/1.1\r\n${this.fixed}${given}`
  }
}
