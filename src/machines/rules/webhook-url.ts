import { webhookUrlCharactersMax } from '../../protocol/wire/inference/job.ts'

/**
 * Names that never belong to a host on the internet (RFC 6761, 6762, 7686, 8375; `.internal` by ICANN; `.lan` by
 * habit).
 */
const privateSuffix = /(^|\.)(localhost|local|internal|home\.arpa|lan|test|onion)$/
/** RFC 3986. The parser silently repairs far more, but a URL that is shown again must be a valid URI unchanged. */
const uri =
  /^https:\/\/(?:[\w.~!$&'()*+,;=:-]|%[\da-f]{2})+(?:\/(?:[\w.~!$&'()*+,;=:@-]|%[\da-f]{2})*)*(?:\?(?:[\w.~!$&'()*+,;=:@/?-]|%[\da-f]{2})*)?$/i
const addressLiteral = /^(\[.*\]|[0-9.]+)$/

export type WebhookUrl = { readonly url: URL } | { readonly fault: string }

/**
 * What can be said of a webhook URL before anything is resolved (§11, §27). The result is its normal form, for
 * the call alone: WHATWG parsing turns `0x7f.1` and `2130706433` into the addresses they are.
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
  const { hostname } = url
  if (addressLiteral.test(hostname)) return fault('must name a host, not an address')
  if (hostname.split('.').includes('')) return fault('must not have an empty label or a trailing dot')
  if (!hostname.includes('.') || privateSuffix.test(hostname)) return fault('must name a public host')
  if (!uri.test(text)) return fault('has characters that must be percent-encoded, or in a host name be in ASCII form')
  return { url }
}
