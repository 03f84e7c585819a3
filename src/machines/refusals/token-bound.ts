import { inDigits } from '../../amounts.ts'
import { Problem } from '../../errors.ts'

/** A request that asks for more than the policy of its key or account allows. */
export function tokensAboveBound(asked: number, most: number): Problem | null {
  if (asked <= most) return null
  const detail = `max_tokens is ${inDigits(asked)}; the policy allows ${inDigits(most)} in one request.`
  return new Problem('max_tokens_exceeded', { param: 'max_tokens', detail })
}
