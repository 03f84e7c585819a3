import type { Node } from '../../protocol/wire/admin/admin.ts'
import type { Act, ActField, Choice, SeenRow, Values } from './act.ts'
import { nodeLabels as labels, nodeEditing, nodePlace } from './node-acts.ts'

const same = (words: readonly string[]): readonly Choice[] => words.map((value) => ({ value, label: value }))
const yesNo: readonly Choice[] = same(['no', 'yes'])

/** Where the node has said itself where its earnings go, nobody else can change it. */
const isSigned = ({ payout_address_by: by }: Node) => by === 'node'

function fieldsOf(node: Node): readonly ActField[] {
  const fields: readonly (ActField | null)[] = [
    { name: 'name', label: labels.name, required: true, value: node.name },
    node.kind === 'agent'
      ? null
      : {
          name: 'url',
          label: labels.url,
          hint: 'a new one removes the stored API key',
          required: true,
          value: node.url ?? '',
        },
    node.kind === 'agent' ? null : { name: 'api_key', label: labels.api_key, hint: 'empty: as it is', kind: 'secret' },
    {
      name: 'visibility',
      label: labels.visibility,
      hint: 'public: other accounts may use it',
      kind: 'choice',
      of: same(['private', 'public']),
      value: node.visibility,
    },
    {
      name: 'privacy_class',
      label: labels.privacy_class,
      hint: 'the most private prompts that other accounts may send to it',
      kind: 'choice',
      of: same(['private', 'trusted', 'public']),
      value: node.privacy_class,
    },
    { name: 'node_class', label: labels.node_class, hint: 'policies name it', required: true, value: node.node_class },
    {
      name: 'rank',
      label: labels.rank,
      hint: '0 to 9: a higher one is used only when no lower one can serve in time',
      kind: 'number',
      min: 0,
      required: true,
      value: String(node.rank),
    },
    {
      name: 'external',
      label: labels.external,
      hint: 'a hosted provider: used only where account and key allow it',
      kind: 'choice',
      of: yesNo,
      value: node.external ? 'yes' : 'no',
    },
    isSigned(node)
      ? null
      : {
          name: 'payout_address',
          label: labels.payout_address,
          hint: 'where its earnings go; empty: nowhere',
          pattern: '0x[0-9a-fA-F]{40}',
          value: node.payout_address ?? '',
        },
  ]
  return fields.filter((field) => field !== null)
}

/** What the person has changed of what the form showed, and nothing else. */
function changesOf(node: Node, values: Values): Readonly<Record<string, unknown>> {
  const now = Object.fromEntries(fieldsOf(node).map(({ name, value = '' }) => [name, value]))
  const typed = Object.entries(values).filter(([name, value]) => now[name] !== undefined && value.trim() !== now[name])
  return Object.fromEntries(
    typed.map(([name, value]) => {
      const text = value.trim()
      if (name === 'rank') return [name, Number(text)]
      if (name === 'external') return [name, text === 'yes']
      return [name, text === '' ? null : text]
    }),
  )
}

/** Why the form has no owner, and where to change it. */
const ownerWords = ({ kind }: Node) =>
  kind === 'agent'
    ? 'The computer joined for its owner. To change the owner, have the computer join again for the other account.'
    : 'To change the owner, drain the node: its details then have a button.'

/** `begins`: what the form shows at first. */
export const editNode = (node: Node, begins = node): Act => ({
  actions: ['node.update'],
  verb: 'Save',
  title: `Edit ${node.name}`,
  about: `Who may use the node, when it is chosen, and where it is reached. ${ownerWords(node)}`,
  fields: fieldsOf(begins),
  editing: nodeEditing(node),
  run: (values, send) =>
    send({ action: 'node.update', method: 'PATCH', path: nodePlace(node.node_id), body: changesOf(node, values) }),
  done: `${node.name} is saved.`,
  undo: (after: Node, _values, before) => editNode(after, (before as SeenRow<Node>).row),
})
