import { tokenPrefixes } from '../../brand.ts'

const bearerPattern = /^bearer +(\S+)$/i

/** What a client of inference sends as its key: a bearer token, or what Anthropic's clients send. null: nothing. */
export function sentKey({ headers: sent }: Request): string | null {
  const authorization = sent.get('authorization')
  return authorization === null ? sent.get('x-api-key') : (bearerPattern.exec(authorization)?.[1] ?? '')
}

const kinds = {
  customer: 'a customer token',
  admin: 'an admin token',
  operator: 'an operator token',
  viewer: 'a viewer token',
  local: 'a token of a node agent',
  api: 'a key of a node agent',
  enroll: 'an enrolment token',
} as const

/** Whoever sends the wrong kind of credential is told its kind, which its prefix says anyway; never whether it is valid. */
export function wrongKind(token: string): { readonly detail?: string } {
  const names = Object.keys(kinds) as (keyof typeof kinds)[]
  const kind = names.find((name) => token.startsWith(tokenPrefixes[name]))
  if (kind === undefined) return {}
  return { detail: `This is ${kinds[kind]}; inference needs a gateway key (${tokenPrefixes.gateway}…).` }
}
