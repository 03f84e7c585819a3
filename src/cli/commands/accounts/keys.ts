import type { Static } from '@sinclair/typebox'
import { printedKey } from '../../../actions/keys/key.ts'
import type { Customer, KeyIssued } from '../../../protocol/wire/admin/accounts.ts'
import type { ModelPolicy } from '../../../protocol/wire/admin/policy.ts'
import { action, type Verb } from '../../frame/action.ts'
import { customerOption, reasonBody, reasonOption, shownOnce } from '../../frame/admin-options.ts'
import { segment } from '../../frame/gateway-client.ts'
import type { Session } from '../../frame/session.ts'
import { fields, shortTime } from '../../frame/table.ts'
import { goesBeyond, keyPolicy, modelPolicyOptions } from './policy-options.ts'

/** How to allow what the account does not let such a key do; '': it does, or nothing is asked for. */
async function heldBack(session: Session, customerId: string, policy: ModelPolicy | null): Promise<string> {
  if (!goesBeyond(policy, null)) return ''
  const path = `/v1/admin/customers/${segment(customerId)}`
  const { gateway_policy: account } = await session.gateway().admin<Customer>({ path })
  if (!goesBeyond(policy, account)) return ''
  const options = [
    ...(policy?.min_privacy_class === undefined ? [] : [`--min-privacy-class ${policy.min_privacy_class}`]),
    ...(policy?.allow_external === true ? ['--allow-external yes'] : []),
  ]
  const command = `./penstock customers update ${customerId} ${options.join(' ')}`
  return `\nThe account allows less than this key, and the stricter of the two holds. To allow as much:\n  ${command}\n`
}

const create = action({
  about: 'Issue a gateway key and print it, once',
  operands: [{ name: 'NAME', about: 'The name that lists show' }],
  options: {
    ...customerOption,
    ...modelPolicyOptions,
    node: { kind: 'texts', value: 'NODE_ID', about: 'A node that the key may use (default: all nodes of the account)' },
    'expires-at': {
      kind: 'text',
      value: 'TIME',
      about: 'When the key expires, e.g. 2027-01-01T00:00:00Z (default: never)',
    },
    ...reasonOption,
  },
  run: async ({ operands, options, json }, session) => {
    const policy = await keyPolicy(session, options)
    // Before the key is made: what is shown only once must not be lost to a call that fails.
    const held = await heldBack(session, session.customer(options.customer), policy ?? null)
    const made = await session.gateway().admin<Static<typeof KeyIssued>>({
      method: 'POST',
      path: `/v1/admin/customers/${segment(session.customer(options.customer))}/keys`,
      approved: true,
      body: {
        name: operands[0],
        ...(policy === undefined ? {} : { model_policy: policy }),
        ...(options.node.length === 0 ? {} : { node_scope: options.node }),
        ...(options['expires-at'] === undefined ? {} : { expires_at: options['expires-at'] }),
        ...reasonBody(options.reason),
      },
    })
    session.show(
      json,
      made,
      (body) =>
        printedKey(body, { fields: (pairs) => fields(session.terminal, pairs), time: shortTime }) +
        shownOnce(session.terminal, 'Gateway key', body.gateway_key) +
        held,
    )
    return undefined
  },
})

export const keys: Verb = {
  name: 'keys',
  about: 'Manage gateway keys, which OpenAI clients send',
  actions: { create },
}
