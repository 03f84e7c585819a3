import type { Credit } from '../../../protocol/wire/money/billing.ts'
import { action, type Verb } from '../../frame/action.ts'
import { reasonBody, reasonOption } from '../../frame/admin-options.ts'
import { segment } from '../../frame/gateway-client.ts'
import { fields, shortTime } from '../../frame/table.ts'

const add = action({
  about: 'Put money on an account',
  operands: [
    { name: 'CUSTOMER_ID', about: 'The id, as in customers list' },
    { name: 'AMOUNT_WEI', about: 'Whole wei' },
  ],
  options: {
    id: { kind: 'text', value: 'CREDIT_ID', about: 'Your id of it: the same one credits once' },
    ...reasonOption,
  },
  run: async ({ operands, options, json }, session) => {
    const credit = await session.gateway().admin<Credit>({
      method: 'POST',
      path: `/v1/admin/customers/${segment(operands[0] ?? '')}/credits`,
      approved: true,
      body: {
        amount_wei: operands[1],
        ...(options.id === undefined ? {} : { credit_id: options.id }),
        ...reasonBody(options.reason),
      },
    })
    session.show(json, credit, (body) =>
      fields(session.terminal, [
        ['Credit', body.credit_id],
        ['Customer', body.customer_id],
        ['Amount', `${body.amount_wei} wei`],
        ['Balance', `${body.balance_after_wei} wei`],
        ['Reserved', `${body.reserved_after_wei} wei`],
        ['Made', shortTime(body.created_at)],
      ]),
    )
    return undefined
  },
})

export const credits: Verb = { name: 'credits', about: 'Prepaid money of customers', actions: { add } }
