import { ModelDelete } from '../../protocol/wire/admin/catalogue.ts'
import { defineAction } from '../frame/define-action.ts'
import { cataloguePolicy, tag } from './entry.ts'

export const deleteModel = defineAction({
  name: 'model.delete',
  at: 'DELETE /v1/admin/models',
  policy: cataloguePolicy,
  summary: 'Delete a catalogue entry',
  tag,
  // Ids hold slashes, so they travel in the body (§23).
  body: ModelDelete,
  etag: 'row',
  run: ({ gateway, audit, body, precondition }) => gateway.pool.by(audit).deleteModelEntry(body.id, precondition()),
  command: {
    words: 'models remove',
    about: 'Remove a catalogue entry. Nodes keep serving the model under their own name for it',
    operands: [{ name: 'MODEL', is: 'id', about: 'The model id that clients use' }],
    after: 'alias',
    asks: 'Remove the entry of {MODEL} with its aliases and prices?',
    prints: 'Removed {MODEL}.',
    gives: { removed: true },
  },
})
