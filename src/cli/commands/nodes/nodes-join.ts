import { joinWordsCount, plainWords } from '../../../protocol/signing/plain-words.ts'
import type { Node } from '../../../protocol/wire/admin/admin.ts'
import type { WaitingJoin, WaitingJoinList } from '../../../protocol/wire/nodes/join.ts'
import { action, type OptionSpecs } from '../../frame/action.ts'
import { customerOption, reasonBody, reasonOption } from '../../frame/admin-options.ts'
import { CliFailure, UsageFault } from '../../frame/failure.ts'
import type { GatewayClient } from '../../frame/gateway-client.ts'
import type { Session } from '../../frame/session.ts'
import { shortTime, table } from '../../frame/table.ts'
import { printable, type Terminal } from '../../frame/terminal.ts'
import { nodeDetails } from './nodes-view.ts'

const path = '/v1/admin/joins'

const options = {
  ...customerOption,
  name: { kind: 'text', value: 'NAME', about: 'The name that lists show (default: as the computer calls itself)' },
  visibility: {
    kind: 'choice',
    of: ['private', 'public'],
    about: 'Who may use the node (default private: only its owner)',
  },
  'node-class': { kind: 'text', value: 'CLASS', about: 'A route tier that policies can name (default standard)' },
  'privacy-class': {
    kind: 'choice',
    of: ['public', 'trusted', 'private'],
    about: 'How far other customers may trust the node with prompts (default private)',
  },
  yes: { kind: 'flag', about: 'With a JOIN_ID: you have compared the words already' },
  ...reasonOption,
} as const satisfies OptionSpecs

function listText(terminal: Terminal, { joins }: WaitingJoinList): string {
  const rows = joins.map(({ join_id, words, name, expires_at }) => [
    join_id,
    words,
    name === null ? null : printable(name),
    shortTime(expires_at),
  ])
  const empty = 'No computer asks to join. On the other computer, start: ./penstock node --gateway URL'
  const note =
    joins.length === 0 ? '' : '\nConfirm one by typing the words that its screen shows: ./penstock nodes join WORDS\n'
  return table(terminal, ['JOIN', 'WORDS', 'NAME', 'EXPIRES'], rows, empty) + note
}

/** What was typed is the words of one that waits, or its id; then a person compares. */
async function chosen(
  typed: readonly string[],
  joins: readonly WaitingJoin[],
  yes: boolean,
  session: Session,
): Promise<WaitingJoin> {
  const [first = ''] = typed
  if (first.startsWith('join_')) {
    const one = joins.find(({ join_id }) => join_id === first)
    if (one === undefined) throw noneWith('this id')
    if (!yes && !session.terminal.interactive)
      throw new UsageFault('Type the six words, or add --yes once you have compared them')
    if (!(await session.agreed(yes, `Does the other computer show “${one.words}”?`)))
      throw new CliFailure('Nothing was confirmed.')
    return one
  }
  const words = plainWords(typed.join(' '))
  if (words.split(' ').length !== joinWordsCount)
    throw new UsageFault('Type all six words that the other computer shows')
  const one = joins.find((join) => join.words === words)
  if (one === undefined) throw noneWith('these words')
  return one
}

const noneWith = (what: string) =>
  new CliFailure(`No computer that waits has ${what}. Nothing was confirmed.`, [
    'If the other computer shows words that the gateway does not know, it talks to another gateway, or somebody stands between.',
    './penstock nodes join',
  ])

const waiting = (gateway: GatewayClient) => gateway.admin<WaitingJoinList>({ path })

export const join = action({
  about: 'List the computers that ask to join, or confirm one by the six words that it shows',
  operands: [
    { name: 'WORDS', about: 'The six words on the screen of the computer, or its JOIN_ID', optional: true, rest: true },
  ],
  options,
  run: async ({ operands, options: given, json }, session) => {
    const gateway = session.gateway()
    const list = await waiting(gateway)
    if (operands.length === 0) {
      session.show(json, list, (body) => listText(session.terminal, body))
      return undefined
    }
    const one = await chosen(operands, list.joins, given.yes, session)
    const node = await gateway.admin<Node>({
      method: 'POST',
      path: `${path}/${one.join_id}/confirm`,
      body: {
        words: one.words,
        customer_id: session.customer(given.customer),
        ...(given.name === undefined ? {} : { name: given.name }),
        visibility: given.visibility ?? 'private',
        node_class: given['node-class'] ?? 'standard',
        privacy_class: given['privacy-class'] ?? 'private',
        ...reasonBody(given.reason),
      },
    })
    session.show(json, node, (body) => nodeDetails(session.terminal, body, Date.now()))
    return undefined
  },
})
