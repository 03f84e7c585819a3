import { AdminCreate, AdminCreated, roles } from '../../protocol/wire/admin/operators.ts'
import { defineAction } from '../frame/define-action.ts'
import { newAdminPolicy, printedAdmin, tag } from './admin.ts'

/** The raw token stands in this answer and nowhere else. */
export const createAdmin = defineAction({
  name: 'admin.create',
  at: 'POST /v1/admin/admins',
  policy: newAdminPolicy,
  summary: 'Make a role token that bears the name of a person or a program',
  description: 'The audit shows the name beside the events of this token, also after the token is revoked.',
  tag,
  body: AdminCreate,
  result: AdminCreated,
  statuses: [201],
  run: async ({ gateway, views, audit, body: { name, role } }) => {
    const { admin, token } = await gateway.admins.create(audit, { name, role })
    return { ...views.adminView(admin), token }
  },
  command: {
    words: 'admins create',
    about: 'Make a role token that bears a name, and print it, once',
    operands: [{ name: 'NAME', is: 'name', about: 'The person or program whose token it is' }],
    options: {
      role: { kind: 'choice', of: roles, about: 'A viewer looks, an operator acts, an admin may do everything' },
    },
    prints: (made, print) => printedAdmin(made, print) + print.once('Role token', made.token),
  },
  form: {
    on: 'operators',
    verb: 'Create',
    button: 'New token',
    title: 'A token for one person or program',
    about: 'The audit shows the name beside everything that is done with this token.',
    labels: { name: 'Name', role: 'Role' },
    shows: { token: 'Role token' },
    done: 'The token is made.',
  },
})
