import { headers, tokenPrefixes } from '../../brand.ts'
import { headerName, missingCredential, type NeededCredential, wrongCredential } from '../../credential-kinds.ts'
import { Problem } from '../../errors.ts'

/** What programs on this computer send (§12). */
export const forPrograms: NeededCredential = {
  kinds: ['local', 'api', 'gateway'],
  carriers: ['authorization', headers.apiKey],
  words: `this agent's token (${tokenPrefixes.local}…) or a gateway key (${tokenPrefixes.gateway}…) as a bearer token in Authorization, or a key of this agent in ${headerName(headers.apiKey)}`,
}
/** What only the gateway has. */
export const forTheGateway: NeededCredential = {
  kinds: [],
  carriers: [headers.routerSignature],
  words: `the gateway's own signature in ${headerName(headers.routerSignature)}`,
}

/**
 * A refusal that names the kind of credential that was sent and the kind that the route needs, but never says whether
 * the sent one is valid.
 */
export function withCredentialKind(problem: Problem, sent: Headers, needed: NeededCredential): Problem {
  const { code, options } = problem
  if (options.detail !== undefined || (code !== 'missing_credentials' && code !== 'invalid_credentials')) return problem
  const missing = code === 'missing_credentials' ? missingCredential(sent, needed) : null
  const detail = wrongCredential(sent, needed) ?? missing
  return detail === null ? problem : new Problem(code, { ...options, detail })
}
