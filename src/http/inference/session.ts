import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'

const sessionPattern = /^[\x21-\x7e]{1,256}$/

/** The client's session; null if it names none (§28). */
export function readSession(request: Request): string | null {
  const session = request.headers.get(headers.session)
  if (session === null || sessionPattern.test(session)) return session
  const param = `header.${headers.session}`
  throw new Problem('invalid_parameter', { param, detail: 'A session has 1 to 256 visible ASCII characters' })
}
