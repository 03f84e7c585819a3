import { ModelEntry, ModelPut } from '../../protocol/wire/admin/catalogue.ts'
import { defineAction } from '../frame/define-action.ts'
import { cataloguePolicy, tag, writtenBy } from './entry.ts'

export const editModel = defineAction({
  name: 'model.edit',
  at: 'PATCH /v1/admin/models',
  policy: cataloguePolicy,
  summary: 'Change fields of a catalogue entry, or create one that has them',
  description: 'An omitted field stays as it is; null takes its value away.',
  tag,
  body: ModelPut,
  result: ModelEntry,
  etag: 'row or none',
  run: async ({ gateway, views, audit, body, precondition }) =>
    views.modelEntryView(await gateway.pool.by(audit).changeModelEntry(writtenBy(body), precondition())),
})
