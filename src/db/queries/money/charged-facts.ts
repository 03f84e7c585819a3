import { sql } from 'drizzle-orm'
import { arrayText } from '../../arrays.ts'
import type { Database } from '../../client.ts'

/** What reports say of the work that was paid for. */
export interface ChargedFacts {
  readonly requestId: string
  readonly kind: string
  readonly modelId: string
  readonly promptTokens: number
  readonly completionTokens: number
}

/** A charge, its share or its fee: all of one moment. */
export interface ChargedAt {
  readonly receiptHash: string | null
  readonly createdAt: Date
}

/**
 * By the hashes of their receipts. A receipt in a group is of the moment of its charge, by which its group is found: to look for hashes alone
 * costs a search through all groups of the last minutes for each.
 */
export async function chargedFacts(
  db: Database,
  charges: readonly ChargedAt[],
): Promise<ReadonlyMap<string, ChargedFacts>> {
  const hashes = new Set(charges.flatMap(({ receiptHash }) => receiptHash ?? []))
  if (hashes.size === 0) return new Map()
  const moments = [...new Set(charges.map(({ createdAt }) => createdAt.toISOString()))]
  const wanted = sql`(select json_array_elements_text(${JSON.stringify([...hashes])}::text::json))`
  const said = sql.raw('receipt_hash, request_id, kind, model_id, prompt_tokens, completion_tokens')
  const rows = await db.execute<{
    receipt_hash: string
    request_id: string
    kind: string
    model_id: string
    prompt_tokens: number
    completion_tokens: number
  }>(sql`
    select ${said} from receipt_rows where receipt_hash in ${wanted}
    union all
    select ${said} from receipts
      where billed and created_at = any (${arrayText(moments)}::text::timestamptz[]) and receipt_hash in ${wanted}`)
  return new Map(
    rows.map((row) => [
      row.receipt_hash,
      {
        requestId: row.request_id,
        kind: row.kind,
        modelId: row.model_id,
        promptTokens: row.prompt_tokens,
        completionTokens: row.completion_tokens,
      },
    ]),
  )
}
