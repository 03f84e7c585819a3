import { expect, test } from 'bun:test'
import { memoryOf, memorySum } from '../../../src/node/servers/models-file.ts'
import { readModels } from '../../../src/node/servers/models-reading.ts'

const path = '/folder/models.json'
const model = (more: object = {}) => ({ id: 'tiny', command: ['serve', '--port', '{port}'], memory_mb: 40, ...more })
const file = (...models: object[]) => ({ memory_mb: 80, models })

/** Printed as a person would, one member a line. */
const read = (value: object) => readModels(path, JSON.stringify(value, null, 2))

const fault = (work: () => unknown): string => {
  try {
    work()
  } catch (error) {
    return String(error)
  }
  throw new Error('it was not refused')
}

test('§30: a whole file is read, and everything but id, command and memory may be left out', () => {
  const full = model({
    env: { CUDA_VISIBLE_DEVICES: '0' },
    cwd: '/srv',
    port: 'auto',
    health: '/health',
    modality: 'chat',
    idle_ttl_s: 300,
    start_timeout_s: 60,
    slots: 4,
    kv_events: [{ port: 5557, replay_port: 5558 }, { port: 5559 }],
    group: 'gpu0',
  })
  expect<object>(read(file(full, model({ id: 'other/one:q4', port: 8081 })))).toEqual(
    file(full, model({ id: 'other/one:q4', port: 8081 })),
  )
})

test('§30: text that is not JSON is refused with its line', () => {
  const cases: readonly (readonly [string, string])[] = [
    ['', 'line 1: it ends too early'],
    ['{\n  "memory_mb": 80,\n  "models": [\n', 'line 4: it ends too early'],
    ['{\n  "memory_mb": 80\n  "models": []\n}', 'line 3: a comma or } is missing'],
    ['{\n  "memory_mb": 80,\n  // big\n  "models": []\n}', 'line 3: this is not JSON'],
    ['{\n  memory_mb: 80\n}', 'line 2: this is not JSON'],
    ['{"memory_mb": 1,\n"memory_mb": 2}', 'line 2: memory_mb is there twice'],
    ['{"memory_mb": 1,\n}', 'line 2: the name of a member in quotes is missing'],
    ['{"memory_mb": }', 'line 1: a value is missing before }'],
    ['[1,\n2', 'line 2: a comma or ] is missing'],
    ['{}\n{}', 'line 2: nothing may follow the end'],
    [`${'['.repeat(40)}`, 'line 1: it is nested too deeply'],
  ]
  for (const [text, said] of cases)
    expect(fault(() => readModels(path, text))).toBe(`NodeStartError: ${path}, ${said}.`)
})

test('§30: a broken file is refused with line and field', () => {
  const cases: readonly (readonly [object, string])[] = [
    [{ memory_mb: 80 }, 'line 1: models is missing. Send a list of at most 32 items.'],
    [
      { memory_mb: '80', models: [model()] },
      'line 2: memory_mb must be a whole number from 1 to 16,777,216; you sent text.',
    ],
    [{ memory_mb: 0, models: [model()] }, 'line 2: memory_mb must be a whole number of at least 1; you sent 0.'],
    [
      file(model({ command: 'rm -rf /' })),
      'line 6: models[0].command must be a list of 1 to 256 items; you sent text.',
    ],
    [
      file(model({ command: [] })),
      'line 6: models[0].command must be a list of 1 to 256 items; you sent an empty list.',
    ],
    [
      file(model({ command: ['a', 'b\u0000c'] })),
      'line 8: models[0].command[1] must be text of 1 to 4,096 characters without a zero byte; you ',
    ],
    [file(model({ memory_mb: 81 })), 'line 11: models[0].memory_mb is more than memory_mb of the whole file, 80.'],
    [file(model({ slot: 4 })), 'line 12: models[0].slot is not a field here. Did you mean slots?'],
    [file(model({ port: 0 })), 'line 12: models[0].port must be auto or a whole number of at least 1; you sent 0.'],
    [file(model({ health: 'health' })), 'line 12: models[0].health must be a path that begins with /, '],
    [file(model({ cwd: 'here' })), 'line 12: models[0].cwd must begin with /.'],
    [file(model({ env: { 'A-B': '1' } })), 'models[0].env.A-B is not a field here: a name must match '],
    [file(model(), model({ id: 'b' }), model()), 'line 23: models[2].id is the id of another model, too.'],
    [file(model({ port: 8081 }), model({ id: 'b', port: 8081 })), 'models[1].port is the port of another model, too.'],
    [file(model({ id: 'lexical/bm25' })), "line 5: models[0].id is the id of the agent's own ranker."],
  ]
  for (const [value, said] of cases) expect(fault(() => read(value))).toContain(said)
})

test('§30: no message repeats a value, which may be a secret', () => {
  for (const more of [
    { env: { TOKEN: ['hunter2'] } },
    { command: 'hunter2' },
    { env: 'hunter2' },
    { cwd: 'hunter2' },
  ]) {
    expect(fault(() => read(file(model(more))))).not.toContain('hunter2')
  }
})

test('§37: devices, pins, changes of requests and profiles are read, and memory may be told by device alone', () => {
  const full = {
    ...model({ memory_mb: undefined }),
    memory: { gpu0: 20_000, memory: 500 },
    pinned: true,
    preload: true,
    stop: ['docker', 'stop', '{model}'],
    request: { set: { temperature: 0.2, chat_template_kwargs: { enable_thinking: false } }, strip: ['top_p'] },
    profiles: [{ id: 'tiny:hot', request: { set: { temperature: 1 } } }],
  }
  const whole = { memory_mb: 1_000, memory: { gpu0: 24_000 }, models: [full] }
  expect<object>(read(whole)).toEqual(JSON.parse(JSON.stringify(whole)) as object)
  expect(memoryOf(read(whole))).toEqual({ memory: 1_000, gpu0: 24_000 })
  expect(memorySum(read(whole).models[0] ?? {})).toBe(20_500)
})

test('§37: a file whose promises cannot be kept is refused with line and field', () => {
  const gpu = (more: object = {}) => ({ ...model({ memory_mb: undefined }), memory: { gpu0: 10 }, ...more })
  const on = (...models: object[]) => ({ memory: { gpu0: 24 }, models })
  const cases: readonly (readonly [object, string])[] = [
    [{ models: [model()] }, 'memory_mb is missing. Send memory_mb, or memory with MiB by device.'],
    [file(model({ memory_mb: undefined })), 'models[0].memory_mb is missing. Send memory_mb, or memory with MiB'],
    [{ ...file(model()), memory: { memory: 80 } }, 'memory.memory is memory_mb under another name.'],
    [on(gpu({ memory: { gpu1: 10 } })), 'models[0].memory.gpu1 has no budget in the file.'],
    [on(gpu({ memory: { gpu0: 25 } })), 'models[0].memory.gpu0 is more than the budget of the whole file, 24.'],
    [on(gpu({ memory: {} })), 'models[0].memory must '],
    [
      on(gpu({ pinned: true, idle_ttl_s: 5 })),
      'models[0].pinned excludes idle_ttl_s: a pinned model is never unloaded.',
    ],
    [
      on(...['a', 'b', 'c'].map((id) => gpu({ id, pinned: true }))),
      'models[2].pinned does not fit into the memory beside the other pinned models.',
    ],
    [
      on(...['a', 'b'].map((id) => gpu({ id, pinned: true, group: 'g' }))),
      'models[1].pinned is set for two models of one group.',
    ],
    [
      on(gpu({ id: 'a', pinned: true }), gpu({ id: 'b', memory: { gpu0: 20 } })),
      'models[1] never fits into the memory beside the pinned models.',
    ],
    [
      on(gpu({ id: 'a', pinned: true, group: 'g' }), gpu({ id: 'b', group: 'g' })),
      'models[1].group has a pinned model, so that this one is never loaded.',
    ],
    [file(model({ sleep: { path: '/s' } })), 'models[0].sleep needs wake beside it.'],
    [file(model({ wake: { path: '/w' } })), 'models[0].wake needs sleep beside it.'],
    [
      file(model({ sleep: { path: '/s', memory_mb: 50 }, wake: { path: '/w' } })),
      'models[0].sleep keeps more than the model takes (memory: 40).',
    ],
    [
      file(model({ sleep: { path: '/s' }, wake: { path: '/w' }, pinned: true })),
      'models[0].sleep excludes pinned: a pinned model never leaves memory.',
    ],
    [file(model({ sleep: { path: 'http://192.168.1.2/s' }, wake: { path: '/w' } })), 'models[0].sleep.path must '],
    [file(model({ request: { set: { model: 'b' } } })), 'models[0].request.set.model cannot be set.'],
    [
      file(model({ request: { strip: ['messages'] } })),
      'models[0].request.strip[0] names a member that cannot be stripped.',
    ],
    [
      file(model({ request: { strip: ['Top P'] } })),
      'models[0].request.strip[0] must be a name of 1 to 64 lower-case letters',
    ],
    [file(model({ request: { set: { a: 'x'.repeat(17_000) } } })), 'models[0].request.set has more than 16384 bytes.'],
    [file(model({ modality: 'rerank', request: { strip: ['seed'] } })), 'models[0].request is for models that chat.'],
    [file(model({ modality: 'rerank', profiles: [{ id: 'x' }] })), 'models[0].profiles is for models that chat.'],
    [file(model({ profiles: [{ id: 'tiny' }] })), 'models[0].profiles[0].id is the id of another model, too.'],
  ]
  for (const [value, said] of cases) expect(fault(() => read(value))).toContain(said)
})
