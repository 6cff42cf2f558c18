import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.protobuf.ByteString;
import com.google.protobuf.Int64Value;
import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.tensorflow.example.Example;
import org.tensorflow.example.Feature;
import org.tensorflow.example.Features;
import org.tensorflow.example.FloatList;
import org.tensorflow.framework.DataType;
import org.tensorflow.framework.TensorInfo;
import org.tensorflow.framework.TensorProto;
import org.tensorflow.framework.TensorShapeProto;
import tensorflow.serving.Classification.ClassificationRequest;
import tensorflow.serving.Classification.ClassificationResponse;
import tensorflow.serving.Classification.ClassificationResult;
import tensorflow.serving.FileSystemStoragePathSource.FileSystemStoragePathSourceConfig.ServableVersionPolicy;
import tensorflow.serving.GetModelMetadata.GetModelMetadataRequest;
import tensorflow.serving.GetModelMetadata.GetModelMetadataResponse;
import tensorflow.serving.GetModelMetadata.SignatureDefMap;
import tensorflow.serving.GetModelStatus.GetModelStatusRequest;
import tensorflow.serving.GetModelStatus.GetModelStatusResponse;
import tensorflow.serving.Inference.InferenceResult;
import tensorflow.serving.Inference.InferenceTask;
import tensorflow.serving.Inference.MultiInferenceRequest;
import tensorflow.serving.Inference.MultiInferenceResponse;
import tensorflow.serving.InputOuterClass.ExampleList;
import tensorflow.serving.InputOuterClass.Input;
import tensorflow.serving.Model.ModelSpec;
import tensorflow.serving.ModelManagement.ReloadConfigRequest;
import tensorflow.serving.ModelManagement.ReloadConfigResponse;
import tensorflow.serving.ModelServerConfigOuterClass.ModelConfig;
import tensorflow.serving.ModelServerConfigOuterClass.ModelConfigList;
import tensorflow.serving.ModelServerConfigOuterClass.ModelServerConfig;
import tensorflow.serving.Predict.PredictRequest;
import tensorflow.serving.Predict.PredictResponse;
import tensorflow.serving.RegressionOuterClass.RegressionRequest;
import tensorflow.serving.RegressionOuterClass.RegressionResponse;
import tensorflow.serving.RegressionOuterClass.RegressionResult;

/**
 * A client of TensorFlow Serving as people write it in Java, on grpc-java and the messages that protoc makes of the
 * public protos; Maven Central does not serve every platform's protoc-gen-grpc-java, so the stub is written by hand. It
 * makes one blocking call after the other and prints {call: answer} as JSON; tests/clients/calls.py says what the
 * answers have to be.
 */
public final class Client {
  private static final String PREDICTION = "tensorflow.serving.PredictionService";
  private static final String MODEL = "tensorflow.serving.ModelService";

  private final Stub stub;
  private final Map<String, Object> answers = new LinkedHashMap<>();

  private Client(Stub stub) {
    this.stub = stub;
  }

  public static void main(String[] arguments) throws Exception {
    ManagedChannel channel =
        ManagedChannelBuilder.forTarget(arguments[0])
            .usePlaintext()
            .maxInboundMessageSize(Integer.MAX_VALUE)
            .build();
    try {
      Client client = new Client(new Stub(channel, CallOptions.DEFAULT));
      client.run(arguments[1], arguments[2]);
      Gson gson = new GsonBuilder().serializeSpecialFloatingPointValues().create();
      System.out.println(gson.toJson(client.answers));
    } finally {
      channel.shutdownNow();
    }
  }

  private void run(String numbered, String words) {
    note("predict", () -> predict(stub, spec("numbered")));
    note("predict, gzip", () -> predict(stub.compressed("gzip"), spec("numbered")));
    note("predict, version", () -> predict(stub, spec("numbered").setVersion(Int64Value.of(1))));
    note("predict, label", () -> predict(stub, spec("numbered").setVersionLabel("stable")));
    note("predict, signature", () -> predict(stub, spec("numbered").setSignatureName("serving_default")));
    note("predict, tensor_content", this::predictContent);
    note("predict, strings", this::predictWords);
    note("classify", this::classify);
    note("regress", this::regress);
    note("multi_inference", this::multiInference);
    note("metadata", this::metadata);
    note("status", () -> status(spec("numbered")));
    note("status, version", () -> status(spec("numbered").setVersion(Int64Value.of(1))));
    note("status, unknown", () -> status(spec("no")));
    note("predict, unknown model", () -> predict(stub, spec("dummy_model")));
    note("predict, unknown version", () -> predict(stub, spec("numbered").setVersion(Int64Value.of(7))));
    note("predict, unknown label", () -> predict(stub, spec("numbered").setVersionLabel("1")));
    note("reload, without labels", () -> reload(numbered, words, Map.of()));
    note("predict, label taken away", () -> predict(stub, spec("numbered").setVersionLabel("stable")));
    note("reload, with labels", () -> reload(numbered, words, Map.of("stable", 1L, "canary", 123L)));
    note("predict, label back", () -> predict(stub, spec("numbered").setVersionLabel("stable")));
  }

  private void note(String name, Call call) {
    try {
      answers.put(name, call.answer());
    } catch (StatusRuntimeException error) {
      String text = error.getStatus().getDescription();
      answers.put(name, List.of(error.getStatus().getCode().value(), text == null ? "" : text));
    } catch (Exception error) {
      throw new IllegalStateException(name, error);
    }
  }

  private static ModelSpec.Builder spec(String name) {
    return ModelSpec.newBuilder().setName(name);
  }

  private static TensorShapeProto shape(long... sizes) {
    TensorShapeProto.Builder shape = TensorShapeProto.newBuilder();
    for (long size : sizes) {
      shape.addDim(TensorShapeProto.Dim.newBuilder().setSize(size));
    }
    return shape.build();
  }

  private static List<Object> answered(ModelSpec spec) {
    return List.of(spec.getName(), spec.getVersion().getValue(), spec.getSignatureName());
  }

  private Object predict(Stub stub, ModelSpec.Builder spec) {
    TensorProto.Builder x = TensorProto.newBuilder().setDtype(DataType.DT_FLOAT).setTensorShape(shape(3));
    return predict(stub, spec, x.addFloatVal(1).addFloatVal(2).addFloatVal(5).build());
  }

  private Object predictContent() {
    ByteBuffer content = ByteBuffer.allocate(12).order(ByteOrder.LITTLE_ENDIAN);
    content.putFloat(1).putFloat(2).putFloat(5).flip();
    TensorProto.Builder x = TensorProto.newBuilder().setDtype(DataType.DT_FLOAT).setTensorShape(shape(3, 1));
    return predict(stub, spec("numbered"), x.setTensorContent(ByteString.copyFrom(content)).build());
  }

  private Object predict(Stub stub, ModelSpec.Builder spec, TensorProto x) {
    PredictRequest request = PredictRequest.newBuilder().setModelSpec(spec).putInputs("x", x).build();
    PredictResponse response = stub.call(PREDICTION, "Predict", request, PredictResponse.getDefaultInstance());
    TensorProto y = response.getOutputsOrThrow("y");
    List<Long> sizes = new ArrayList<>();
    y.getTensorShape().getDimList().forEach(dim -> sizes.add(dim.getSize()));
    return List.of(answered(response.getModelSpec()), sizes, y.getFloatValList());
  }

  private Object predictWords() {
    TensorProto words =
        TensorProto.newBuilder()
            .setDtype(DataType.DT_STRING)
            .setTensorShape(shape(3))
            .addStringVal(ByteString.copyFromUtf8("apple"))
            .addStringVal(ByteString.copyFrom("b\u00ff\u00fe", StandardCharsets.ISO_8859_1))
            .addStringVal(ByteString.EMPTY)
            .build();
    PredictRequest request =
        PredictRequest.newBuilder()
            .setModelSpec(spec("strings"))
            .putInputs("words", words)
            .addOutputFilter("length")
            .addOutputFilter("words")
            .build();
    PredictResponse response = stub.call(PREDICTION, "Predict", request, PredictResponse.getDefaultInstance());
    List<String> same = new ArrayList<>();
    for (ByteString word : response.getOutputsOrThrow("words").getStringValList()) {
      StringBuilder hexadecimal = new StringBuilder();
      word.forEach(each -> hexadecimal.append(String.format("%02x", each)));
      same.add(hexadecimal.toString());
    }
    return List.of(response.getOutputsOrThrow("length").getIntValList(), same);
  }

  private static Input examples(float x) {
    Feature feature = Feature.newBuilder().setFloatList(FloatList.newBuilder().addValue(x)).build();
    Example example = Example.newBuilder().setFeatures(Features.newBuilder().putFeature("x", feature)).build();
    return Input.newBuilder().setExampleList(ExampleList.newBuilder().addExamples(example)).build();
  }

  private static List<Object> classes(ClassificationResult result) {
    List<Object> rows = new ArrayList<>();
    result.getClassificationsList()
        .forEach(row -> row.getClassesList().forEach(one -> rows.add(List.of(one.getLabel(), one.getScore()))));
    return rows;
  }

  private static List<Float> values(RegressionResult result) {
    List<Float> rows = new ArrayList<>();
    result.getRegressionsList().forEach(row -> rows.add(row.getValue()));
    return rows;
  }

  private Object classify() {
    ModelSpec.Builder spec = spec("numbered").setVersion(Int64Value.of(1)).setSignatureName("classify_x_to_y");
    ClassificationRequest request =
        ClassificationRequest.newBuilder().setModelSpec(spec).setInput(examples(20)).build();
    ClassificationResponse response =
        stub.call(PREDICTION, "Classify", request, ClassificationResponse.getDefaultInstance());
    return List.of(answered(response.getModelSpec()), classes(response.getResult()));
  }

  private Object regress() {
    ModelSpec.Builder spec = spec("numbered").setVersion(Int64Value.of(1)).setSignatureName("regress_x_to_y");
    RegressionRequest request = RegressionRequest.newBuilder().setModelSpec(spec).setInput(examples(80)).build();
    RegressionResponse response = stub.call(PREDICTION, "Regress", request, RegressionResponse.getDefaultInstance());
    return List.of(answered(response.getModelSpec()), values(response.getResult()));
  }

  private Object multiInference() {
    MultiInferenceRequest.Builder request = MultiInferenceRequest.newBuilder().setInput(examples(2));
    for (String kind : List.of("classify", "regress")) {
      request.addTasks(
          InferenceTask.newBuilder()
              .setModelSpec(spec("numbered").setSignatureName(kind + "_x_to_y"))
              .setMethodName("tensorflow/serving/" + kind));
    }
    MultiInferenceResponse response =
        stub.call(PREDICTION, "MultiInference", request.build(), MultiInferenceResponse.getDefaultInstance());
    List<Object> rows = new ArrayList<>();
    for (InferenceResult result : response.getResultsList()) {
      Object row =
          result.hasClassificationResult()
              ? classes(result.getClassificationResult())
              : values(result.getRegressionResult());
      rows.add(List.of(answered(result.getModelSpec()), row));
    }
    return rows;
  }

  private Object metadata() throws Exception {
    GetModelMetadataRequest request =
        GetModelMetadataRequest.newBuilder().setModelSpec(spec("numbered")).addMetadataField("signature_def").build();
    GetModelMetadataResponse response =
        stub.call(PREDICTION, "GetModelMetadata", request, GetModelMetadataResponse.getDefaultInstance());
    SignatureDefMap signatures = response.getMetadataOrThrow("signature_def").unpack(SignatureDefMap.class);
    TensorInfo x = signatures.getSignatureDefOrThrow("serving_default").getInputsOrThrow("x");
    List<String> names = new ArrayList<>(new TreeSet<>(signatures.getSignatureDefMap().keySet()));
    return List.of(answered(response.getModelSpec()), names, x.getName(), x.getDtype().name());
  }

  private Object status(ModelSpec.Builder spec) {
    GetModelStatusRequest request = GetModelStatusRequest.newBuilder().setModelSpec(spec).build();
    GetModelStatusResponse response =
        stub.call(MODEL, "GetModelStatus", request, GetModelStatusResponse.getDefaultInstance());
    List<Object> rows = new ArrayList<>();
    response
        .getModelVersionStatusList()
        .forEach(
            row ->
                rows.add(
                    List.of(
                        row.getVersion(),
                        row.getState().name(),
                        row.getStatus().getErrorCode().getNumber(),
                        row.getStatus().getErrorMessage())));
    return rows;
  }

  private Object reload(String numbered, String words, Map<String, Long> labels) {
    ServableVersionPolicy all =
        ServableVersionPolicy.newBuilder().setAll(ServableVersionPolicy.All.getDefaultInstance()).build();
    ModelConfigList models =
        ModelConfigList.newBuilder()
            .addConfig(
                ModelConfig.newBuilder()
                    .setName("numbered")
                    .setBasePath(numbered)
                    .setModelPlatform("tensorflow")
                    .setModelVersionPolicy(all)
                    .putAllVersionLabels(labels))
            .addConfig(ModelConfig.newBuilder().setName("strings").setBasePath(words).setModelPlatform("tensorflow"))
            .build();
    ReloadConfigRequest request =
        ReloadConfigRequest.newBuilder()
            .setConfig(ModelServerConfig.newBuilder().setModelConfigList(models))
            .build();
    ReloadConfigResponse response =
        stub.call(MODEL, "HandleReloadConfigRequest", request, ReloadConfigResponse.getDefaultInstance());
    return List.of(response.getStatus().getErrorCode().getNumber(), response.getStatus().getErrorMessage());
  }

  private interface Call {
    Object answer() throws Exception;
  }

  /** Blocking calls, as the stubs of protoc-gen-grpc-java make them. */
  private record Stub(Channel channel, CallOptions options) {
    Stub compressed(String compressor) {
      return new Stub(channel, options.withCompression(compressor));
    }

    <Q extends Message, R extends Message> R call(String service, String name, Q request, R response) {
      @SuppressWarnings("unchecked")
      Q prototype = (Q) request.getDefaultInstanceForType();
      MethodDescriptor<Q, R> method =
          MethodDescriptor.<Q, R>newBuilder()
              .setType(MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(MethodDescriptor.generateFullMethodName(service, name))
              .setRequestMarshaller(ProtoUtils.marshaller(prototype))
              .setResponseMarshaller(ProtoUtils.marshaller(response))
              .build();
      CallOptions bounded = options.withDeadlineAfter(20, TimeUnit.SECONDS);
      return ClientCalls.blockingUnaryCall(channel, method, bounded, request);
    }
  }
}
