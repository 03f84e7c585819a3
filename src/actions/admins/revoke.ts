import { brand } from '../../brand.ts'
import { Admin } from '../../protocol/wire/admin/operators.ts'
import { defineAction } from '../frame/define-action.ts'
import { endPolicy, printedAdmin, tag } from './admin.ts'

export const revokeAdmin = defineAction({
  name: 'admin.revoke',
  at: 'DELETE /v1/admin/admins/:admin_id',
  policy: endPolicy,
  summary: 'Revoke a named role token and end its sessions',
  description: `Both stop working at once, and within 5 s on other gateways; open event streams close. The audit keeps the name. The reason travels in \`x-${brand}-reason\`.`,
  tag,
  result: Admin,
  run: async ({ gateway, views, audit, params }) =>
    views.adminView(await gateway.admins.revoke(audit, params.admin_id)),
  command: {
    words: 'admins revoke',
    about: 'Revoke a named role token at once, and end the sessions of the console that it made',
    operands: [{ name: 'ADMIN', is: 'admin_id', about: 'The name, or the id (adm_…) that `admins list` shows' }],
    asks: 'Revoke the token of {ADMIN}? The gateway will refuse everyone who uses it.',
    prints: printedAdmin,
  },
  form: {
    on: 'admin',
    when: { revoked_at: ['null'] },
    verb: 'Revoke',
    title: 'Revoke the token of {name}',
    about: 'The token is refused at once, for good, and its sessions end. The audit keeps the name.',
    confirm: '{name}',
    destroys: true,
    done: 'The token of {name} is revoked.',
  },
})
