import { webhookUrlCharactersMax } from '../../protocol/wire/job.ts'

/** Names that never mean a machine on the internet (RFC 6761, 6762, 7686; `.internal` by ICANN). */
const privateSuffix = /(^|\.)(localhost|local|internal|onion)$/
const addressLiteral = /^(\[.*\]|[0-9.]+)$/

export type WebhookUrl = { readonly url: string } | { readonly fault: string }

/**
 * What can be said of a webhook URL before anything is resolved (decisions §11). The result is its normal form: WHATWG
 * parsing turns `0x7f.1` and `2130706433` into the addresses they are, and a trailing dot of the host goes.
 */
export function checkWebhookUrl(text: string, ports: readonly number[]): WebhookUrl {
  const fault = (words: string) => ({ fault: `webhook_url ${words}` })
  if (text.length > webhookUrlCharactersMax) return fault(`may have at most ${webhookUrlCharactersMax} characters`)
  if (!URL.canParse(text)) return fault('is not a URL')
  const url = new URL(text)
  if (url.protocol !== 'https:') return fault('must begin with https://')
  if (url.username !== '' || url.password !== '') return fault('must not hold credentials')
  if (url.hash !== '' || text.includes('#')) return fault('must not have a fragment')
  const port = url.port === '' ? 443 : Number(url.port)
  if (!ports.includes(port)) return fault('must use an allowed port')
  const host = url.hostname.replace(/\.$/, '')
  if (addressLiteral.test(host)) return fault('must name a host, not an address')
  if (!host.includes('.') || privateSuffix.test(host)) return fault('must name a public host')
  if (host !== url.hostname) url.hostname = host
  return { url: url.toString() }
}
