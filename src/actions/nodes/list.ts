import { NodeList } from '../../protocol/wire/admin/admin.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'

export const nodeList = defineList({
  name: 'node.list',
  at: 'GET /v1/admin/nodes',
  role: 'viewer',
  category: 'node_control',
  summary: 'List the nodes with their state and load',
  tag: 'Nodes (extension)',
  query: { limit: limitOf(100, 5_000) },
  result: NodeList,
  rows: 'nodes',
  read: ({ gateway, views, role, query: { limit } }) => views.nodesOfAll(gateway, limit, role),
  command: {
    words: 'nodes list',
    about: 'List the nodes with their state, load and models',
    options: {},
    after: 'tokens',
    columns: (nodes, print) => print.nodes(nodes),
    empty: '',
  },
})
