import { brand, headers, tokenPrefixes } from './brand.ts'

export type CredentialKind = keyof typeof tokenPrefixes

const kindNames: Readonly<Record<CredentialKind, string>> = {
  gateway: 'a gateway key',
  customer: 'a customer token',
  admin: 'an admin token',
  operator: 'an operator token',
  viewer: 'a viewer token',
  session: 'the token of a console session',
  local: 'a token of a node agent',
  api: 'a key of a node agent',
  enroll: 'an enrolment token',
}
const kinds = Object.keys(kindNames) as readonly CredentialKind[]

/** What a token's prefix says that it is, which its sender knows anyway; null: nothing. */
const kindOf = (token: string): CredentialKind | null =>
  kinds.find((kind) => token.startsWith(tokenPrefixes[kind])) ?? null

/** Headers in which clients send a credential, in the order in which they are looked at. */
const carriers = [
  'authorization',
  'x-api-key',
  headers.adminToken,
  headers.approverToken,
  headers.customerToken,
  headers.apiKey,
] as const
/** Headers that are a credential by themselves. */
const signatures = {
  [headers.routerSignature]: 'a signature of a gateway',
  [headers.nodeSignature]: 'a signature of a node',
}

/** What a route asks of its caller. */
export interface NeededCredential {
  readonly kinds: readonly CredentialKind[]
  /** Where it may stand. */
  readonly carriers: readonly string[]
  /** `an admin token in X-SVC-Admin-Token`. */
  readonly words: string
}

/** `x-svc-admin-token` → `X-SVC-Admin-Token`. */
export function headerName(header: string): string {
  if (header === 'x-api-key') return header
  const parts = header.split('-').map((part) => {
    if (part === brand || part === 'api' || part === 'id') return part.toUpperCase()
    return part.charAt(0).toUpperCase() + part.slice(1)
  })
  return parts.join('-')
}

/** The tokens of a header: two bearers may stand in one (RFC 9110 §5.3). */
const tokensIn = (carrier: string, value: string): readonly string[] =>
  carrier === 'authorization' ? value.split(',').map((part) => /^\s*bearer +(\S+)\s*$/i.exec(part)?.[1] ?? '') : [value]

/**
 * What a caller is told who sent another kind of credential than the route needs, or the right kind elsewhere; null: what
 * was sent is of no known kind, or of the right one. It says nothing of whether a credential is valid.
 */
export function wrongCredential(sent: Headers, needed: NeededCredential): string | null {
  const came = carriers.flatMap((carrier) =>
    tokensIn(carrier, sent.get(carrier) ?? '').flatMap((token) => {
      const kind = kindOf(token)
      return kind === null ? [] : [{ carrier, name: kindNames[kind], isRight: needed.kinds.includes(kind) }]
    }),
  )
  const signed = Object.entries(signatures).flatMap(([carrier, name]) =>
    sent.has(carrier) ? [{ carrier, name, isRight: needed.carriers.includes(carrier) }] : [],
  )
  const all = [...came, ...signed]
  if (all.some(({ carrier, isRight }) => isRight && needed.carriers.includes(carrier))) return null
  const [first] = all
  if (first === undefined) return null
  const [place] = needed.carriers
  const sentence = `You sent ${first.name} in ${headerName(first.carrier)}.`
  return first.isRight && place !== undefined
    ? `${sentence} Send it as ${headerName(place)}.`
    : `${sentence} This route needs ${needed.words}.`
}

/** True if any header carries a credential of whatever kind. */
export const sendsAny = (sent: Headers): boolean =>
  [...carriers, ...Object.keys(signatures)].some((header) => sent.has(header))

/** What a caller is told who sent no credential that the route could look at. */
export function missingCredential(sent: Headers, needed: NeededCredential): string {
  return `${sendsAny(sent) ? '' : 'No credential was sent. '}This route needs ${needed.words}.`
}

/** The same of a token in a field of a body. */
export function wrongKindOfToken(field: string, token: string, needed: CredentialKind): string | null {
  const kind = kindOf(token)
  if (kind === null || kind === needed) return null
  return `${field} is ${kindNames[kind]}. It must be ${kindNames[needed]} (${tokenPrefixes[needed]}…).`
}
