import type { Static } from '@sinclair/typebox'
import type { Customer, Key, KeyIssued, KeyList, KeyRotated } from '../../../protocol/wire/admin/accounts.ts'
import type { ModelPolicy } from '../../../protocol/wire/admin/policy.ts'
import { action, type Verb } from '../../frame/action.ts'
import { customerOption, reasonBody, reasonOption, shownOnce, yesOption } from '../../frame/admin-options.ts'
import { segment } from '../../frame/gateway-client.ts'
import type { Session } from '../../frame/session.ts'
import { fields, shortTime, table } from '../../frame/table.ts'
import { goesBeyond, keyPolicy, modelPolicyOptions } from './policy-options.ts'

const idOperand = { name: 'KEY_ID', about: 'The id (key_…), as `keys list` shows it' } as const

function described(session: Session, key: Key, oldKeyUntil?: string): string {
  return fields(session.terminal, [
    ['Key', key.key_id],
    ['Name', key.name],
    ['Customer', key.customer_id],
    ['Begins with', key.display_prefix],
    ['Policy', key.model_policy === null ? 'default' : JSON.stringify(key.model_policy)],
    ['Nodes', key.node_scope === null ? 'all' : key.node_scope.join(', ')],
    ['Expires', shortTime(key.expires_at)],
    ['Revoked', shortTime(key.revoked_at)],
    ...(oldKeyUntil === undefined ? [] : [['Old key works until', shortTime(oldKeyUntil)] as const]),
  ])
}

function keyState(key: Key): string {
  if (key.revoked_at !== null) return 'revoked'
  return key.expires_at !== null && Date.parse(key.expires_at) <= Date.now() ? 'expired' : 'active'
}

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
      (body) => described(session, body) + shownOnce(session.terminal, 'Gateway key', body.gateway_key) + held,
    )
    return undefined
  },
})

const list = action({
  about: 'List the keys of a customer, including expired and revoked ones',
  options: customerOption,
  run: async ({ options, json }, session) => {
    const customer = segment(session.customer(options.customer))
    const path = `/v1/admin/customers/${customer}/keys?limit=1000`
    const answer = await session.gateway().admin<Static<typeof KeyList>>({ path })
    session.show(json, answer, ({ keys }) =>
      table(
        session.terminal,
        ['KEY', 'NAME', 'BEGINS WITH', 'STATE', 'POLICY', 'LAST USED', 'EXPIRES'],
        keys.map((key) => [
          key.key_id,
          key.name,
          key.display_prefix,
          keyState(key),
          key.model_policy === null && key.node_scope === null ? 'default' : 'own',
          shortTime(key.last_used_at),
          shortTime(key.expires_at),
        ]),
        'There are no keys.',
      ),
    )
    return undefined
  },
})

const rotate = action({
  about: 'Replace a key: print a new one, while the old one keeps working for a while',
  operands: [idOperand],
  options: {
    'keep-seconds': {
      kind: 'number',
      value: 'N',
      min: 0,
      max: 604_800,
      about: 'How long the old key keeps working (default: SVC_KEY_ROTATION_MS, 24 hours)',
    },
    ...reasonOption,
  },
  run: async ({ operands, options, json }, session) => {
    const keep = options['keep-seconds']
    const made = await session.gateway().admin<Static<typeof KeyRotated>>({
      method: 'POST',
      path: `/v1/admin/keys/${segment(operands[0] ?? '')}/rotate`,
      approved: true,
      body: { ...(keep === undefined ? {} : { keep_seconds: keep }), ...reasonBody(options.reason) },
    })
    session.show(
      json,
      made,
      (body) =>
        described(session, body, body.old_key_expires_at) +
        shownOnce(session.terminal, 'Gateway key', body.gateway_key),
    )
    return undefined
  },
})

const revoke = action({
  about: 'Revoke a key at once',
  operands: [idOperand],
  options: { ...reasonOption, ...yesOption },
  run: async ({ operands, options, json }, session) => {
    const id = operands[0] ?? ''
    if (!(await session.agreed(options.yes, `Revoke ${id}? The gateway will refuse everyone who uses it.`))) return 1
    const key = await session.gateway().admin<Key>({
      method: 'DELETE',
      path: `/v1/admin/keys/${segment(id)}`,
      approved: true,
      reason: options.reason,
    })
    session.show(json, key, (body) => described(session, body))
    return undefined
  },
})

export const keys: Verb = {
  name: 'keys',
  about: 'Manage gateway keys, which OpenAI clients send',
  actions: { create, list, rotate, revoke },
}
