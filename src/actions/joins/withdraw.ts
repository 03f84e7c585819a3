import { defineAction } from '../frame/define-action.ts'
import { tag } from '../nodes/node.ts'

export const withdrawToken = defineAction({
  name: 'node.enroll.withdraw',
  at: 'DELETE /v1/admin/enrollment-tokens/:token_id',
  policy: { role: 'operator', category: 'node_control', target: 'enrollment_token' },
  summary: 'Withdraw an enrolment token',
  tag,
  run: ({ gateway, audit, params }) => gateway.enrollment.withdraw(params.token_id, audit),
  command: {
    words: 'nodes withdraw',
    about: 'Withdraw an enrolment token. A node that has used it stays enrolled',
    operands: [{ name: 'TOKEN_ID', is: 'token_id', about: 'The id (enr_…), as `nodes tokens` shows it' }],
    after: 'tokens',
    prints: 'Withdrew {TOKEN_ID}.',
    gives: { withdrawn: true },
  },
  form: {
    on: 'enrolment token',
    verb: 'Withdraw',
    title: 'Withdraw the line for {name}',
    about: 'The line stops working. A node that has used it stays.',
    done: 'The line for {name} works no more.',
  },
})
