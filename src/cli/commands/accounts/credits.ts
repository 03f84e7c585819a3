import type { Credit } from '../../../protocol/wire/money/billing.ts'
import { action, type Verb } from '../../frame/action.ts'
import { reasonBody, reasonOption } from '../../frame/admin-options.ts'
import { UsageFault } from '../../frame/failure.ts'
import { segment } from '../../frame/gateway-client.ts'
import { fields, shortTime } from '../../frame/table.ts'

const add = action({
  about: 'Credit a customer’s account',
  operands: [
    { name: 'CUSTOMER_ID', about: 'The customer’s id, as `customers list` shows it' },
    { name: 'AMOUNT_WEI', about: 'The amount in whole wei' },
  ],
  options: {
    id: {
      kind: 'text',
      value: 'CREDIT_ID',
      about: 'Your own id for this credit. Using the same id again does not credit twice.',
    },
    ...reasonOption,
  },
  run: async ({ operands, options, json }, session) => {
    if (!/^[0-9]+$/.test(operands[1] ?? '')) {
      throw new UsageFault('AMOUNT_WEI must be whole wei, without exponent, sign or point, like 1000000000000000000')
    }
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

export const credits: Verb = { name: 'credits', about: 'Manage the prepaid money of customers', actions: { add } }
