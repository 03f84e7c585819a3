import { Type } from '@sinclair/typebox'
import { SessionBegun } from '../../protocol/wire/admin/operators.ts'
import { strict } from '../../protocol/wire/shapes.ts'
import { defineAction } from '../frame/define-action.ts'
import { tag } from './admin.ts'

/** The session's token stands in this answer and nowhere else. */
export const signIn = defineAction({
  name: 'session.begin',
  at: 'POST /v1/admin/sessions',
  policy: { role: 'viewer', category: 'observability', target: null, reasonRequired: false, requirement: 'role_token' },
  summary: 'Sign in to the console with a role token',
  description:
    'The console then sends `session_token` in place of the role token. It ends after `SVC_SESSION_IDLE_MS` without a person, after `SVC_SESSION_MAX_MS` at the latest, and with the role token. Refused with 409 `invalid_state` for a session.',
  tag,
  body: Type.Object({}, strict),
  mayBeEmpty: true,
  result: SessionBegun,
  statuses: [201],
  run: async ({ gateway, views, audit, caller }) => {
    const { session, token } = await gateway.sessions.beginWithToken(caller, audit)
    return { ...views.sessionView(session), session_token: token }
  },
})
