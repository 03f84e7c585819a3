import { Elysia } from 'elysia'
import type { NewModelEntry } from '../../../actors/catalogue/model-entries.ts'
import { brand } from '../../../brand.ts'
import { AdminModelList, ModelDelete, ModelEntry, ModelPut } from '../../../protocol/wire/admin/admin.ts'
import { isoTime } from '../../../time.ts'
import { parseWei } from '../../frame/admin-input.ts'
import type { HttpContext } from '../../frame/context.ts'
import { tagged } from '../../frame/precondition.ts'
import { asks, limitOf } from '../../frame/query.ts'
import { reads } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { adminModels, modelEntryView } from '../../views/admin.ts'

const tags = ['Model catalogue (extension)']
const listQuery = { limit: limitOf(1_000, 10_000) }

/** Fields that the body does not have are left out. */
function writtenBy(body: ModelPut): NewModelEntry {
  const fields: { readonly [K in keyof NewModelEntry]: NewModelEntry[K] | undefined } = {
    modelId: body.id,
    aliases: body.aliases,
    name: body.name,
    description: body.description,
    inputModalities: body.input_modalities,
    outputModalities: body.output_modalities,
    contextLength: body.context_length,
    maxOutputLength: body.max_output_length,
    promptTokenPriceWei: priceOf(body, 'prompt_token_price_wei'),
    completionTokenPriceWei: priceOf(body, 'completion_token_price_wei'),
    usdPrices: body.usd_prices,
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as NewModelEntry
}

const priceOf = (body: ModelPut, name: 'prompt_token_price_wei' | 'completion_token_price_wei') =>
  body[name] === undefined ? undefined : parseWei(body[name], name)

/** The operator's catalogue. Ids hold slashes, so they travel in the body (§23). */
export const catalogueRoutes = (context: HttpContext) => {
  const { pool, router } = context.gateway
  return new Elysia()
    .use(admin(context))
    .get(
      '/v1/admin/models',
      async ({ query: { limit } }) => {
        const models = adminModels(await pool.modelEntries(), router.table()).slice(0, limit)
        return {
          object: `${brand}.admin.model_list` as const,
          generated_at: isoTime(Date.now()),
          count: models.length,
          models,
        }
      },
      {
        action: 'model.list',
        response: { 200: AdminModelList },
        ...asks(listQuery),
        detail: describe({ summary: 'List catalogue entries and the models that nodes serve', tags }),
      },
    )
    .put(
      '/v1/admin/models',
      async ({ body: { body, audit }, call, set }) => {
        const entry = await pool.by(audit).putModelEntry(writtenBy(body), call.precondition(body.etag))
        return tagged(set, modelEntryView(entry))
      },
      {
        action: 'model.update',
        response: { 200: ModelEntry },
        ...reads(ModelPut),
        detail: describe({
          summary: 'Create or replace a catalogue entry',
          description: 'The body is the whole entry: an omitted field gets its default.',
          tags,
          etag: 'row or none',
        }),
      },
    )
    .patch(
      '/v1/admin/models',
      async ({ body: { body, audit }, call, set }) => {
        const entry = await pool.by(audit).changeModelEntry(writtenBy(body), call.precondition(body.etag))
        return tagged(set, modelEntryView(entry))
      },
      {
        action: 'model.edit',
        response: { 200: ModelEntry },
        ...reads(ModelPut),
        detail: describe({
          summary: 'Change fields of a catalogue entry, or create one that has them',
          description: 'An omitted field stays as it is; null takes its value away.',
          tags,
          etag: 'row or none',
        }),
      },
    )
    .delete(
      '/v1/admin/models',
      async ({ body: { body, audit }, call, set }) => {
        await pool.by(audit).deleteModelEntry(body.id, call.precondition(body.etag))
        set.status = 204
      },
      {
        action: 'model.delete',
        ...reads(ModelDelete),
        detail: describe({ summary: 'Delete a catalogue entry', tags, empty: true, etag: 'row' }),
      },
    )
}
