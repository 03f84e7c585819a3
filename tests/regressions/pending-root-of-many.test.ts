import { expect, test } from 'bun:test'
import { pendingReceiptHashes } from '../../src/db/queries/money/public-settlement.ts'
import { MerkleTree } from '../../src/protocol/receipts/merkle.ts'
import { testDatabase } from '../support/run/postgres.ts'

test('§14: the hashes behind the public root are read in pieces, and the tree pauses while it takes them over', async () => {
  const { db, sql, drop } = await testDatabase()
  try {
    const count = 25_001
    await sql`insert into receipt_rows (receipt_hash, issuer, request_id, kind, node_id, node_class, runtime_id, runtime_kind,
        model_id, prompt_tokens, completion_tokens, started_at, completed_at, customer_id, billed, status)
      select '0x' || encode(sha256(n::text::bytea), 'hex'), 'gateway', 'req_' || n, 'hosted_chat', 'n', 'c', 'r', 'k', 'm', 1, 1,
        now(), now(), 'cus_a', n % 5 <> 0, case when n % 7 = 0 then 'held' else 'accepted' end
      from generate_series(1, ${count}::int) n`
    const rows = await sql<{ hash: string }[]>`
      select receipt_hash as hash from receipts where billed and status = 'accepted'`
    const hashes = await db.transaction((tx) => pendingReceiptHashes(tx))
    expect(hashes).toEqual(rows.map(({ hash }) => hash).sort())
    let pauses = 0
    const tree = await MerkleTree.ofHashes(hashes, async () => {
      pauses++
    })
    const pieces = hashes.length / 4_096
    expect(pauses).toBeGreaterThanOrEqual(2 * Math.floor(pieces))
    expect(tree?.root()).toBe(MerkleTree.of(hashes.map((hash) => Buffer.from(hash.slice(2), 'hex'))).root())
    await expect(MerkleTree.ofHashes(hashes.toReversed(), async () => {})).rejects.toThrow('in their order')
  } finally {
    await drop()
  }
})
