import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, hash, Instant, nullable, reason, strict } from '../shapes.ts'

const base64Hash = Type.String({ pattern: '^[A-Za-z0-9+/]{43}=$' })
const proof = Type.Array(base64Hash, { maxItems: 63, description: 'From the leaf up, base64' })

/** What verifiers are given: the log's name and its keys (C2SP `signed-note`). */
export const LogKeys = Type.Object({
  object: Type.Literal(`${brand}.log_keys`),
  origin: Type.String(),
  keys: Type.Array(Type.String()),
})

/** An entry's place below a checkpoint. */
export const LogInclusion = Type.Object({
  object: Type.Literal(`${brand}.log_inclusion`),
  entry: Type.String({ description: 'The entry itself; its leaf is SHA-256 of a zero byte and these' }),
  index: count,
  size: count,
  proof,
  /** By the log's key over a receipt's hash; null where its node signed it. */
  signature_ed25519: nullable(Type.String()),
  log_proof: Type.String({ description: 'All of it with the checkpoint, as C2SP `tlog-proof` writes it' }),
})
export type LogInclusion = Static<typeof LogInclusion>

/** What stands before it may lack its node's signature; below the checkpoint of the receipt that it comes with. */
export const LogCutoff = Type.Object(
  {
    size: count,
    root: Type.String({ pattern: '^[0-9a-f]{64}$' }),
    unsigned: count,
    unsigned_hash: hash,
    proof,
  },
  { description: 'The entry of the log that bounds the receipts from before nodes signed all' },
)

export const LogConsistency = Type.Object({
  object: Type.Literal(`${brand}.log_consistency`),
  from: count,
  to: count,
  proof,
})

/** What a fork's entry commits to, and its place below a checkpoint. */
const ForkedLog = Type.Object({
  origin: Type.String({ description: 'The name under which the log went on' }),
  size: count,
  root: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  lost: Type.String({ description: 'The signed checkpoint that was lost' }),
  proof,
})
export const LogForks = Type.Object({
  object: Type.Literal(`${brand}.log_forks`),
  size: count,
  forks: Type.Array(ForkedLog, { maxItems: 64 }),
})

/** Keys of witnesses, as verifiers are given them (C2SP `signed-note`). */
export const LogWitnesses = Type.Object({
  object: Type.Literal(`${brand}.log_witnesses`),
  witnesses: Type.Array(
    Type.Object({ kind: Type.Union([Type.Literal('agent'), Type.Literal('other')]), key: Type.String() }),
    {
      maxItems: 256,
    },
  ),
})

/** What is typed to name a fork. */
export const forkConfirmation = 'NAME THE FORK'
export const ForkBody = Type.Object({ confirm: Type.Optional(Type.String({ maxLength: 100 })), reason }, strict)
export const LogFork = Type.Object({
  object: Type.Literal(`${brand}.admin.log_fork`),
  origin: Type.String(),
  size: count,
  lost_size: count,
  lost_checkpoint: Type.String(),
})

export const BooksReport = Type.Object({
  object: Type.Literal(`${brand}.admin.books_check`),
  generated_at: Instant,
  sound: Type.Boolean(),
  receipts: count,
  log_entries: count,
  unsigned_receipts: nullable(
    Type.Integer({
      minimum: 0,
      description:
        'Receipts from before nodes signed all, which the cutoff in the log bounds, or null before the first start has written it',
    }),
  ),
  faults: Type.Array(Type.Object({ rule: Type.String(), subject: Type.String() }), { maxItems: 1_000 }),
})
export type BooksReport = Static<typeof BooksReport>
