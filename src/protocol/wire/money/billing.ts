import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { WholeGatewayPolicy } from '../admin/policy.ts'
import { count, Instant, literals, nullable, reason, strict, wei } from '../shapes.ts'

const nullableText = nullable(Type.String())
const ok = Type.Literal('ok')
const ledgerKinds = ['admin_credit', 'reserve', 'release', 'debit'] as const

const LedgerTotal = Type.Object({ kind: literals(ledgerKinds), count, amount_wei: wei })
const LedgerEntry = Type.Object({
  entry_id: Type.String(),
  private_job_id: nullableText,
  receipt_hash: nullableText,
  kind: literals(ledgerKinds),
  amount_wei: wei,
  balance_after_wei: wei,
  reserved_after_wei: wei,
  created_at: Instant,
})
export type LedgerEntry = Static<typeof LedgerEntry>
const usageFields = { totals: Type.Array(LedgerTotal), entries: Type.Array(LedgerEntry) }

/** Endpoint 12. */
export const CustomerUsage = Type.Object({
  status: ok,
  customer_id: Type.String(),
  generated_at: Instant,
  ...usageFields,
})
export type CustomerUsage = Static<typeof CustomerUsage>

/** Endpoint 13. */
export const UsageExport = Type.Object({
  object: Type.Literal(`${brand}.admin.customer_usage_export`),
  generated_at: Instant,
  export_policy: Type.Literal('customer_usage_export_v1'),
  contains_request_content: Type.Boolean(),
  customer: Type.Object({
    customer_id: Type.String(),
    display_name: Type.String(),
    account_status: Type.String(),
    balance_wei: wei,
    reserved_wei: wei,
    available_wei: wei,
    created_at: Instant,
  }),
  usage: Type.Object(usageFields),
})
export type UsageExport = Static<typeof UsageExport>

/** Endpoint 11. */
export const CustomerAccount = Type.Object({
  status: ok,
  customer_id: Type.String(),
  display_name: Type.String(),
  account_status: literals(['active', 'suspended', 'closed']),
  balance_wei: wei,
  reserved_wei: wei,
  available_wei: wei,
  gateway_policy: nullable(WholeGatewayPolicy),
})

/** Endpoint 14. */
export const CreditRequest = Type.Object(
  {
    credit_id: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$',
        description: 'Your own id for the credit. Using the same id again does not credit twice.',
      }),
    ),
    amount_wei: Type.String({ pattern: '^[1-9][0-9]{0,77}$', description: 'Whole wei, at least 1' }),
    reason,
  },
  strict,
)
export const Credit = Type.Object({
  status: Type.Literal('credited'),
  customer_id: Type.String(),
  credit_id: Type.String(),
  amount_wei: wei,
  balance_after_wei: wei,
  reserved_after_wei: wei,
  reason: nullableText,
  created_at: Instant,
})
export type Credit = Static<typeof Credit>
