import { Elysia } from 'elysia'
import { brand } from '../../../brand.ts'
import { AdminModelList, ModelDelete, ModelEntry, ModelPut } from '../../../protocol/wire/admin/admin.ts'
import { isoTime } from '../../../time.ts'
import { parseWei } from '../../frame/admin-input.ts'
import type { HttpContext } from '../../frame/context.ts'
import { asks, limitOf } from '../../frame/query.ts'
import { reads } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { adminModels, modelEntryView } from '../../views/admin.ts'

const tags = ['Model catalogue (extension)']
const listQuery = { limit: limitOf(1_000, 10_000) }

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
      async ({ body: { body, audit } }) => {
        const entry = await pool.by(audit).putModelEntry({
          modelId: body.id,
          aliases: body.aliases ?? [],
          name: body.name ?? null,
          description: body.description ?? null,
          inputModalities: body.input_modalities ?? null,
          outputModalities: body.output_modalities ?? null,
          contextLength: body.context_length ?? null,
          maxOutputLength: body.max_output_length ?? null,
          promptTokenPriceWei: parseWei(body.prompt_token_price_wei, 'prompt_token_price_wei'),
          completionTokenPriceWei: parseWei(body.completion_token_price_wei, 'completion_token_price_wei'),
          usdPrices: body.usd_prices ?? null,
        })
        return modelEntryView(entry)
      },
      {
        action: 'model.update',
        response: { 200: ModelEntry },
        ...reads(ModelPut),
        detail: describe({
          summary: 'Create or replace a catalogue entry',
          description: 'The body is the whole entry: an omitted field gets its default.',
          tags,
        }),
      },
    )
    .delete(
      '/v1/admin/models',
      async ({ body: { body, audit }, set }) => {
        await pool.by(audit).deleteModelEntry(body.id)
        set.status = 204
      },
      {
        action: 'model.delete',
        ...reads(ModelDelete),
        detail: describe({ summary: 'Delete a catalogue entry', tags, empty: true }),
      },
    )
}
