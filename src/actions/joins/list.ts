import { WaitingJoinList } from '../../protocol/wire/nodes/join.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'

/** Its command compares words, and stands by itself in `nodes join`. */
export const joinList = defineList({
  name: 'node.join.list',
  at: 'GET /v1/admin/joins',
  role: 'operator',
  category: 'node_control',
  summary: 'List the computers that ask to join, with their words',
  tag: 'Nodes (extension)',
  query: { limit: limitOf(50, 50) },
  result: WaitingJoinList,
  rows: 'joins',
  read: async ({ gateway, views, query: { limit } }) => (await gateway.joining.waiting(limit)).map(views.joinView),
})
