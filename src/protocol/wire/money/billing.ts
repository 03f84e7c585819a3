import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { kindNames } from '../../money/kinds.ts'
import { WholeGatewayPolicy } from '../admin/policy.ts'
import { balanceFields } from '../balance.ts'
import { pageFields } from '../page.ts'
import {
  chosenId,
  count,
  formed,
  Instant,
  literals,
  nullable,
  nullableInteger,
  reason,
  strict,
  wei,
} from '../shapes.ts'

const nullableText = nullable(Type.String())
const ok = Type.Literal('ok')

const LedgerTotal = Type.Object({ kind: literals(kindNames), count, amount_wei: wei })
const LedgerEntry = Type.Object({
  entry_id: Type.String(),
  private_job_id: nullableText,
  receipt_hash: nullableText,
  kind: literals(kindNames),
  amount_wei: wei,
  balance_after_wei: wei,
  reserved_after_wei: wei,
  created_at: Instant,
})
export type LedgerEntry = Static<typeof LedgerEntry>
const usageFields = { totals: Type.Array(LedgerTotal), entries: Type.Array(LedgerEntry) }

const InvoiceLine = Type.Object({
  entry_id: Type.String(),
  created_at: Instant,
  work_id: nullable(Type.String({ description: 'The id of the request or of the job' })),
  kind: nullableText,
  model_id: nullableText,
  prompt_tokens: nullableInteger,
  completion_tokens: nullableInteger,
  amount_wei: wei,
  refunded_wei: Type.Unsafe<string>({ ...wei, description: 'Given back since: nothing, or all of it' }),
  receipt_hash: nullableText,
})
export type InvoiceLine = Static<typeof InvoiceLine>

/** One line per billed request (§32). */
export const Invoice = Type.Object({
  object: Type.Literal(`${brand}.admin.customer_invoice`),
  generated_at: Instant,
  customer_id: Type.String(),
  display_name: Type.String(),
  total_wei: Type.Unsafe<string>({ ...wei, description: 'Of all lines of the range, on this page or not' }),
  refunded_wei: Type.Unsafe<string>({ ...wei, description: 'What was given back of it since' }),
  count,
  ...pageFields,
  lines: Type.Array(InvoiceLine),
})
export type Invoice = Static<typeof Invoice>

/** Endpoint 12. */
export const CustomerUsage = Type.Object({
  status: ok,
  customer_id: Type.String(),
  generated_at: Instant,
  ...pageFields,
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
    ...balanceFields,
    created_at: Instant,
  }),
  ...pageFields,
  usage: Type.Object(usageFields),
})
export type UsageExport = Static<typeof UsageExport>

/** Endpoint 11. */
export const CustomerAccount = Type.Object({
  status: ok,
  customer_id: Type.String(),
  display_name: Type.String(),
  account_status: literals(['active', 'suspended', 'closed']),
  ...balanceFields,
  gateway_policy: nullable(WholeGatewayPolicy),
})

const amountField = {
  amount_wei: formed('^[1-9][0-9]{0,77}$', 'whole wei, at least 1, as a text of digits, such as "1000"', {
    description: 'Whole wei, at least 1',
  }),
  reason,
}
const entryFields = {
  amount_wei: wei,
  balance_after_wei: wei,
  reserved_after_wei: wei,
  reason: nullableText,
  created_at: Instant,
}

/** Endpoint 14. */
export const CreditRequest = Type.Object(
  {
    credit_id: Type.Optional(
      chosenId({ description: 'Your own id for the credit. Using the same id again does not credit twice.' }),
    ),
    ...amountField,
  },
  strict,
)
export const Credit = Type.Object({
  status: Type.Literal('credited'),
  customer_id: Type.String(),
  credit_id: Type.String(),
  ...entryFields,
})
export type Credit = Static<typeof Credit>

/** Credit that an operator takes back (§23). */
export const DebitRequest = Type.Object(
  {
    debit_id: Type.Optional(
      chosenId({ description: 'Your own id for the debit. Using the same id again does not debit twice.' }),
    ),
    ...amountField,
  },
  strict,
)
export const Debit = Type.Object({
  status: Type.Literal('debited'),
  customer_id: Type.String(),
  debit_id: Type.String(),
  ...entryFields,
})
export type Debit = Static<typeof Debit>
