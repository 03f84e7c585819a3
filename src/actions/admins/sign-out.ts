import { defineAction } from '../frame/define-action.ts'
import { tag } from './admin.ts'

export const signOut = defineAction({
  name: 'session.end',
  at: 'DELETE /v1/admin/session',
  policy: { role: 'viewer', category: 'observability', target: null, reasonRequired: false, requirement: 'role_token' },
  summary: 'Sign out: end the session that calls',
  description: 'Called with a role token, it changes nothing.',
  tag,
  run: ({ gateway, caller }) => gateway.sessions.signOut(caller.sessionId),
})
