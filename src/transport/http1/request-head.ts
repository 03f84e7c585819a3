import { product } from '../../brand.ts'
import type { NodeRequest } from '../transport.ts'

const lineBreak = /[\r\n\0]/
/** Names of headers whose beginnings of lines are kept; they are ours, and few. */
const namesMax = 64

/** Header values are ours or checked elsewhere; a line break in one would be another request. */
function unbroken(text: string): string {
  if (lineBreak.test(text)) throw new TypeError('header with a line break')
  return text
}

/** Request lines and headers for one node: what is the same for every request is written once. */
export class RequestHeads {
  private readonly prefix: string
  private readonly fixed: string
  private readonly reserved: ReadonlySet<string>
  /** How the line of a name begins; empty: it is not written. */
  private readonly beginnings = new Map<string, string>()
  /** The last request's, which mostly fits again. */
  private method = ''
  private path = ''
  private start = ''

  constructor(url: URL, apiKey: string | null) {
    const own: Readonly<Record<string, string>> = {
      host: url.host,
      'accept-encoding': 'identity',
      'user-agent': product,
      ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
    }
    this.prefix = url.pathname === '/' ? '' : url.pathname
    this.fixed = Object.entries(own)
      .map(([name, value]) => `${name}: ${unbroken(value)}\r\n`)
      .join('')
    this.reserved = new Set(Object.keys(own))
  }

  /** Without the length of the body. */
  of(path: string, { method, headers }: NodeRequest): string {
    if (method !== this.method || path !== this.path) {
      this.start = `${method} ${this.prefix}${path} HTTP/1.1\r\n${this.fixed}`
      this.method = method
      this.path = path
    }
    let lines = this.start
    for (const name in headers) {
      const beginning = this.beginnings.get(name) ?? this.beginning(name)
      if (beginning !== '') lines += `${beginning}${unbroken(headers[name] ?? '')}\r\n`
    }
    return lines
  }

  private beginning(name: string): string {
    const beginning = this.reserved.has(name.toLowerCase()) ? '' : `${unbroken(name)}: `
    if (this.beginnings.size < namesMax) this.beginnings.set(name, beginning)
    return beginning
  }
}
