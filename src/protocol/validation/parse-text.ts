import { Problem } from '../../errors.ts'

const weiMax = 2n ** 256n - 1n

export function parseWei(text: string | null | undefined, param: string): bigint | null {
  if (text == null) return null
  const amount = BigInt(text)
  if (amount <= weiMax) return amount
  throw new Problem('invalid_request', { param, detail: `${param} is more than 2^256 - 1` })
}

const instantPattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/

export function parseInstant(text: string | null | undefined, param: string): Date | null {
  if (text == null) return null
  const at = new Date(text)
  if (instantPattern.test(text) && !Number.isNaN(at.getTime())) return at
  throw new Problem('invalid_request', { param, detail: `${param} must be a time like 2026-11-20T16:00:00Z` })
}
