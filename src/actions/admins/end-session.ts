import { brand } from '../../brand.ts'
import { Session } from '../../protocol/wire/admin/operators.ts'
import { defineAction } from '../frame/define-action.ts'
import { endPolicy, tag } from './admin.ts'

export const endSession = defineAction({
  name: 'session.revoke',
  at: 'DELETE /v1/admin/sessions/:session_id',
  policy: { ...endPolicy, target: 'session' },
  summary: 'End a session of the console',
  description: `It stops working at once, and within 5 s on other gateways; its open event streams close. The reason travels in \`x-${brand}-reason\`.`,
  tag,
  result: Session,
  run: async ({ gateway, views, audit, params }) =>
    views.sessionView(await gateway.sessions.revoke(audit, params.session_id)),
  command: {
    words: 'admins end',
    about: 'End a session of the console at once',
    operands: [{ name: 'SESSION_ID', is: 'session_id', about: 'The id (ses_…), as `admins sessions` shows it' }],
    after: 'sessions',
    prints: 'Ended {SESSION_ID}.',
  },
  form: {
    on: 'session',
    when: { state: ['open', 'idle'] },
    verb: 'End',
    title: 'End the session of {who}',
    about: 'The person has to sign in again.',
    destroys: true,
    done: 'The session of {who} has ended.',
  },
})
