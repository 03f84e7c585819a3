//! Tool loops of three turns with `async-openai`, by chat and by Responses. What came is printed as JSON.

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::types::chat::{
    ChatCompletionMessageToolCalls, CreateChatCompletionRequest, CreateChatCompletionStreamResponse,
};
use async_openai::types::responses::{CreateResponse, OutputItem, Response, ResponseStreamEvent};
use futures::StreamExt;
use serde_json::{Value, json};

fn client(key: &str) -> Client<OpenAIConfig> {
    let base = format!("{}/v1", std::env::var("URL").unwrap());
    Client::with_config(OpenAIConfig::new().with_api_base(base).with_api_key(key))
}

fn look() -> Value {
    json!({"type": "object", "properties": {"step": {"type": "integer"}}, "required": ["step"]})
}

/// The last turn repeats it, so that a lost result is seen.
fn result(arguments: &str) -> String {
    let asked: Value = serde_json::from_str(arguments).unwrap();
    format!("result {}", asked["step"])
}

fn chat(model: &str, messages: &[Value]) -> CreateChatCompletionRequest {
    let tools = json!([{"type": "function", "function": {"name": "look", "parameters": look()}}]);
    serde_json::from_value(json!({"model": model, "messages": messages, "tools": tools})).unwrap()
}

/// Joins the pieces of a stream; what is left out stands beside it.
#[derive(Default)]
struct Turn {
    text: String,
    calls: Vec<(String, String, String)>,
    finish: String,
}

impl Turn {
    fn add(&mut self, chunk: CreateChatCompletionStreamResponse) {
        for choice in chunk.choices {
            self.text += choice.delta.content.as_deref().unwrap_or("");
            for piece in choice.delta.tool_calls.unwrap_or_default() {
                let at = piece.index as usize;
                if self.calls.len() <= at {
                    self.calls.resize(at + 1, Default::default());
                }
                let call = &mut self.calls[at];
                call.0 += piece.id.as_deref().unwrap_or("");
                let function = piece.function.unwrap_or_default();
                call.1 += function.name.as_deref().unwrap_or("");
                call.2 += function.arguments.as_deref().unwrap_or("");
            }
            if let Some(reason) = choice.finish_reason {
                self.finish = serde_json::to_value(reason).unwrap().as_str().unwrap().to_string();
            }
        }
    }
}

async fn chat_turn(client: &Client<OpenAIConfig>, request: CreateChatCompletionRequest, streamed: bool) -> Turn {
    let mut turn = Turn::default();
    if streamed {
        let mut stream = client.chat().create_stream(request).await.unwrap();
        while let Some(chunk) = stream.next().await {
            turn.add(chunk.unwrap());
        }
        return turn;
    }
    let choice = client.chat().create(request).await.unwrap().choices.remove(0);
    turn.text = choice.message.content.unwrap_or_default();
    for call in choice.message.tool_calls.unwrap_or_default() {
        if let ChatCompletionMessageToolCalls::Function(call) = call {
            turn.calls.push((call.id, call.function.name, call.function.arguments));
        }
    }
    turn.finish = serde_json::to_value(choice.finish_reason).unwrap().as_str().unwrap().to_string();
    turn
}

async fn chat_loop(client: &Client<OpenAIConfig>, streamed: bool) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "begin"})];
    for turns in 1.. {
        let turn = chat_turn(client, chat("m", &messages), streamed).await;
        if turn.calls.is_empty() {
            return json!([turns, turn.finish, turn.text]);
        }
        let calls: Vec<Value> = turn
            .calls
            .iter()
            .map(|(id, name, input)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": input}}))
            .collect();
        messages.push(json!({"role": "assistant", "tool_calls": calls}));
        for (id, _, input) in &turn.calls {
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": result(input)}));
        }
    }
    unreachable!()
}

async fn response_of(client: &Client<OpenAIConfig>, request: CreateResponse, streamed: bool) -> Response {
    if !streamed {
        return client.responses().create(request).await.unwrap();
    }
    let mut stream = client.responses().create_stream(request).await.unwrap();
    let mut completed = None;
    while let Some(event) = stream.next().await {
        if let ResponseStreamEvent::ResponseCompleted(event) = event.unwrap() {
            completed = Some(event.response);
        }
    }
    completed.unwrap()
}

async fn responses_loop(client: &Client<OpenAIConfig>, streamed: bool) -> Value {
    let mut input = vec![json!({"type": "message", "role": "user", "content": "begin"})];
    let tools = json!([{"type": "function", "name": "look", "parameters": look()}]);
    for turns in 1.. {
        let asked = json!({"model": "m", "input": input, "tools": tools});
        let response = response_of(client, serde_json::from_value(asked).unwrap(), streamed).await;
        let before = input.len();
        for item in &response.output {
            if let OutputItem::FunctionCall(call) = item {
                let output = json!({"type": "function_call_output", "call_id": call.call_id, "output": result(&call.arguments)});
                input.extend([serde_json::to_value(item).unwrap(), output]);
            }
        }
        if input.len() == before {
            return json!([turns, serde_json::to_value(&response.status).unwrap(), response.output_text()]);
        }
    }
    unreachable!()
}

async fn refusal(client: &Client<OpenAIConfig>, model: &str) -> Value {
    match client.chat().create(chat(model, &[json!({"role": "user", "content": "begin"})])).await {
        Err(OpenAIError::ApiError(refused)) => json!([refused.status_code.as_u16(), refused.api_error.code]),
        _ => json!(["no error of the API"]),
    }
}

/// Drops a stream that has begun.
async fn abort(client: &Client<OpenAIConfig>) -> bool {
    let request = chat("slow", &[json!({"role": "user", "content": "begin"})]);
    let mut stream = client.chat().create_stream(request).await.unwrap();
    stream.next().await.is_some_and(|chunk| chunk.is_ok())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let key = std::env::var("KEY").unwrap();
    let client_of_key = client(&key);
    let told = json!({
        "chat": chat_loop(&client_of_key, false).await,
        "chat_stream": chat_loop(&client_of_key, true).await,
        "responses": responses_loop(&client_of_key, false).await,
        "responses_stream": responses_loop(&client_of_key, true).await,
        "wrong_key": refusal(&client("nonsense"), "m").await,
        "no_model": refusal(&client_of_key, "nothing").await,
        "abort": abort(&client_of_key).await,
    });
    println!("{told}");
}
