import type { Credit, Debit } from '../../../protocol/wire/money/billing.ts'
import { action, type Verb } from '../../frame/action.ts'
import { reasonBody, reasonOption } from '../../frame/admin-options.ts'
import { UsageFault } from '../../frame/failure.ts'
import { segment } from '../../frame/gateway-client.ts'
import type { Session } from '../../frame/session.ts'
import { type Cell, fields, shortTime } from '../../frame/table.ts'

const operands = [
  { name: 'CUSTOMER_ID', about: 'The customer’s id, as `customers list` shows it' },
  { name: 'AMOUNT_WEI', about: 'The amount in whole wei' },
] as const

function amountOf(text: string | undefined): string {
  if (text !== undefined && /^[0-9]+$/.test(text)) return text
  throw new UsageFault('AMOUNT_WEI must be whole wei, without exponent, sign or point, like 1000000000000000000')
}

const path = (customerId: string | undefined, what: 'credits' | 'debits') =>
  `/v1/admin/customers/${segment(customerId ?? '')}/${what}`

const shown = (session: Session, id: readonly [string, Cell], body: Credit | Debit) =>
  fields(session.terminal, [
    id,
    ['Customer', body.customer_id],
    ['Amount', `${body.amount_wei} wei`],
    ['Balance', `${body.balance_after_wei} wei`],
    ['Reserved', `${body.reserved_after_wei} wei`],
    ['Made', shortTime(body.created_at)],
  ])

const add = action({
  about: 'Credit a customer’s account',
  operands,
  options: {
    id: {
      kind: 'text',
      value: 'CREDIT_ID',
      about: 'Your own id for this credit. Using the same id again does not credit twice.',
    },
    ...reasonOption,
  },
  run: async ({ operands: [customerId, amount], options, json }, session) => {
    const credit = await session.gateway().admin<Credit>({
      method: 'POST',
      path: path(customerId, 'credits'),
      approved: true,
      body: {
        amount_wei: amountOf(amount),
        ...(options.id === undefined ? {} : { credit_id: options.id }),
        ...reasonBody(options.reason),
      },
    })
    session.show(json, credit, (body) => shown(session, ['Credit', body.credit_id], body))
    return undefined
  },
})

const deduct = action({
  about: 'Take credit back from a customer, at most what is available',
  operands,
  options: {
    id: {
      kind: 'text',
      value: 'DEBIT_ID',
      about: 'Your own id for this debit. Using the same id again does not debit twice.',
    },
    ...reasonOption,
  },
  run: async ({ operands: [customerId, amount], options, json }, session) => {
    const debit = await session.gateway().admin<Debit>({
      method: 'POST',
      path: path(customerId, 'debits'),
      approved: true,
      body: {
        amount_wei: amountOf(amount),
        ...(options.id === undefined ? {} : { debit_id: options.id }),
        ...reasonBody(options.reason),
      },
    })
    session.show(json, debit, (body) => shown(session, ['Debit', body.debit_id], body))
    return undefined
  },
})

export const credits: Verb = {
  name: 'credits',
  about: 'Manage the prepaid money of customers',
  actions: { add, deduct },
}
