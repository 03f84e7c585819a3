import { ModelEntry, ModelPut } from '../../protocol/wire/admin/catalogue.ts'
import { defineAction } from '../frame/define-action.ts'
import { cataloguePolicy, tag, writtenBy } from './entry.ts'

export const putModel = defineAction({
  name: 'model.update',
  at: 'PUT /v1/admin/models',
  policy: cataloguePolicy,
  summary: 'Create or replace a catalogue entry',
  description: 'The body is the whole entry: an omitted field gets its default.',
  tag,
  body: ModelPut,
  result: ModelEntry,
  etag: 'row or none',
  run: async ({ gateway, views, audit, body, precondition }) =>
    views.modelEntryView(await gateway.pool.by(audit).putModelEntry(writtenBy(body), precondition())),
})
